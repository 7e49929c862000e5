"""The table of options: what a user may set for a run, and where. A new option is a row here.

docs/reference/options.md is made from it (``python -m tests.session.test_options``); a test compares them.
Imported in every pytest run, used or not: the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.session.options import (
    COUNT,
    DOLLARS,
    SECONDS,
    SWITCH,
    Option,
    OptionValues,
    RawValue,
    RepetitionRange,
    ValueType,
    choice,
    count,
    file_name,
    folder,
    names,
    path_or_name,
    shard,
    switch,
    table,
    text,
    texts,
    whole,
    whole_or_range,
)

if TYPE_CHECKING:
    import pytest

    from pytest_agenteval.records.plan import ModelPrice, RecordMode, Variant

RESULTS = ".agenteval/runs"
TOOL_MODES: tuple[RecordMode, ...] = ("none", "once", "new_episodes", "all")
CHAT_MODES: tuple[RecordMode, ...] = ("off", *TOOL_MODES)


def by_function(name: str) -> Callable[[RawValue], Any]:
    """Read a value by a function of ``option_formats``, which is imported when somebody sets the option."""

    def parse(raw: RawValue) -> Any:
        from pytest_agenteval.session import option_formats

        return getattr(option_formats, name)(raw)

    return parse


ON_OR_OFF = choice("auto|no", "auto", "no")
MODELS = ValueType("NAME", names, "the name of a model, or a comma list")
RUN = ValueType("RUN", text, "a run: a path, name, prefix, latest or MODEL@YYYYMMDD")
RUNS = ValueType("RUN", names, RUN.expected)

# Limits on the requests to a model, which an option may give for all models.
RATE_OPTIONS = ("requests_at_once", "requests_per_minute", "tokens_per_minute", "patience_seconds")


class Settings(OptionValues):
    """What was set for a run, by attribute; what is not set has its row's default."""

    # The rows stand in the order of ``pytest --help`` and of docs/reference/options.md.
    models: Option[tuple[str, ...]] = Option(
        "models to try, comma lists: an alias (claude, gpt, gemini), a litellm id, hf/NAME, vllm/NAME, or "
        "offline: rules, oracle, nop, scripted",
        MODELS,
        (),
        name="model",
        several=True,
    )
    repetitions = Option(
        "trials of each task and model (default: the task's trials_per_run); LOW..HIGH, as in 2..6: more "
        "than LOW where the comparison with the baseline needs them",
        ValueType("N", whole_or_range, "a whole number, 1 or more, or LOW..HIGH, as in 2..6"),
        None,
        flag="--repetitions",
    )
    max_trials = count(
        "under --repetitions=LOW..HIGH: no suite gets more than LOW where the run's trials would be more"
    )
    variants: Option[tuple[Variant, ...]] = Option(
        "a variant: prompt files that replace the agent's own, tried beside them",
        ValueType("NAME=PATH", by_function("read_variants"), "NAME=PATH"),
        (),
        name="prompt",
        several=True,
    )
    judges: Option[tuple[str, ...]] = Option(
        "models that judge where a grader asks for judgement, comma lists; several are an ensemble",
        MODELS,
        (),
        name="judge",
        several=True,
    )
    user = Option(
        "the model that plays the users whom tasks describe (`user` in a task)",
        ValueType("NAME", text, "the name of a model"),
        "",
    )
    self_judge = switch("a model may judge its own trials: no warning")
    split = Option("dev, held_out or all (default: dev)", choice("SPLIT", "dev", "held_out", "all"), "dev")
    sample = count("so many tasks of each bucket, chosen by --agent-seed")
    only = Option(
        "trials that ended so in the latest run: missed,errored; another run: missed@RUN",
        ValueType("ENDINGS", text, "endings, as in missed,errored"),
        "",
    )
    shard = Option(
        "the I-th of N parts of all tests, for a machine each: 2/4; agenteval merge joins their runs "
        "(docs/guides/shards.md)",
        ValueType("I/N", shard, "a part of several, as in 2/4: the second of four"),
        None,
    )
    audit = switch(
        "audit tasks and graders: the reference has to reach 1.0, doing nothing and the reference spoilt in "
        "each way have to miss; also asked for by -m agenteval_audit"
    )
    max_steps = count("replies of the model in each trial, before what the task says")
    timeout = Option("seconds of each trial, before what the task says", SECONDS, None)
    regrade: Option[tuple[str, ...]] = Option(
        "grade the trials of a stored run again, without an agent: a path, name, prefix, latest or "
        "MODEL@YYYYMMDD",
        RUNS,
        (),
        several=True,
    )
    resume = Option(
        "go on with a run that was cut short, in its own folder: only what is missing or errored is tried "
        "(default: the latest run)",
        RUN,
        "",
        alone="latest",
    )
    reuse: Option[tuple[str, ...]] = Option(
        "take over into a new run what an earlier one has finished and nobody has changed since; where only "
        "graders changed they grade again (default: the latest run)",
        RUNS,
        (),
        several=True,
        alone="latest",
    )
    baseline = Option(
        "compare with this run, or baseline's file, when the run ends; latest is the run before; or none",
        ValueType("RUN", path_or_name, f"a baseline's file, or {RUN.expected}"),
        "",
    )
    gate: Option[Mapping[str, Any] | None] = Option(
        "what each suite has to reach, comma lists, before what its suite.yaml says: score=0.8, "
        "not_worse=true, errored=0.05, ... (docs/guides/gates.md); none switches every gate off",
        ValueType(
            "KEY=VALUE", by_function("read_gate"), "KEY=VALUE, as in score=0.8,not_worse=true; or none"
        ),
        {},
        several=True,
    )
    reports: Option[tuple[Path, ...]] = Option(
        "write the run's report to this file when it ends, told by its ending: .html, .md, ...; may be "
        "given again; none for no file",
        ValueType("FILE", by_function("read_report_files"), "a file's path, or a list of them"),
        (),
        name="report",
        several=True,
    )
    seed = Option(
        "the seed of everything that is drawn (default: 0)",
        ValueType("N", whole(0), "a whole number, 0 or more"),
        0,
    )
    concurrency = Option("trials at once in each process (default: 10)", COUNT, 10)
    executor = Option(
        "where trials are carried out: local, processes, processes:N, ray, ray:N (default: local)",
        ValueType("NAME", text, "the name of an executor"),
        "local",
    )
    record: Option[RecordMode] = Option(
        "how tools meet their cassettes: none, once, new_episodes, all (default: none)",
        choice("MODE", *TOOL_MODES),
        "none",
    )
    record_chat: Option[RecordMode] = Option(
        "how chats meet their cassettes: off, none, once, new_episodes, all (default: off)",
        choice("MODE", *CHAT_MODES),
        "off",
    )
    live = Option(
        "what agents ask by themselves goes out, untaped; else it meets the cassettes like tools "
        "(suite.yaml: live)",
        SWITCH,
        None,
    )
    results = Option(
        "the folder that keeps runs (default: .agenteval/runs), or none",
        ValueType("DIR", folder, "a folder, or none"),
        None,
    )
    run_name = Option(
        "the name of the run's folder (default: when it began, with its models)",
        ValueType("NAME", file_name, "a name for a folder, of letters, digits, '.', '_' and '-'"),
        "",
    )
    keep_workspaces = switch("keep each trial's workspace in the run's folder")
    comment = Option(
        "write the run as a pull request's comment: the verdict, suites, the three worst "
        "(docs/guides/github.md)",
        ValueType("FILE", folder, "a file in Markdown, or none"),
        None,
    )
    annotations = Option(
        "in GitHub Actions, annotate task files at the line of what was missed (default: auto)",
        ON_OR_OFF,
        "auto",
    )
    progress = Option(
        "what the run is at, below pytest's lines on a terminal: auto, or no (default: auto, which shows "
        "nothing under -q, -s and --pdb, on CI servers and where the output is no terminal)",
        ON_OR_OFF,
        "auto",
    )
    strict = switch("a miss in a capability suite is a failure too")
    aliases: Option[Mapping[str, Any]] = Option(
        "models by name: an id, or a table with id and settings",
        ValueType("", table, "a table"),
        {},
        name="models",
        flag=None,
    )
    prices: Option[Mapping[str, ModelPrice]] = Option(
        "what models cost, in USD for a million tokens: input, output, cached, cache_write, tiers, as_of",
        ValueType("", by_function("read_prices"), "a table for each model"),
        {},
        flag=None,
    )
    redact: Option[tuple[str, ...]] = Option(
        "patterns of what is secret, besides what is known to be",
        ValueType("", texts, "a list of regular expressions"),
        (),
        flag=None,
    )
    trial_tokens = count("tokens of each trial, input and output, before what the task says")
    trial_cost = Option("US dollars of each trial, before what the task says", DOLLARS, None)
    max_cost = Option(
        "US dollars of the whole run, judges too: what is in flight ends, nothing more begins, and "
        "--agent-resume goes on (docs/guides/budgets.md)",
        DOLLARS,
        None,
    )
    max_tokens = count("tokens of the whole run, input and output, judges' too, likewise")
    dry_run = switch(
        "run nothing and say what would be run, and what it would take: trials, tokens, US dollars"
    )
    requests_at_once = count(
        "requests under way at once to each model, at most, by all processes of the run together (default: "
        "as many as they have trials at once)"
    )
    requests_per_minute = count("requests to each model in any minute, at most (default: no limit)")
    tokens_per_minute = count("tokens of requests and replies of each model in a minute (default: no limit)")
    patience_seconds = Option(
        "so long a model is waited for that replies to nobody any more, before the rest is not run "
        "(default: 120)",
        SECONDS,
        None,
    )

    @property
    def fixed_repetitions(self) -> int | None:
        """Trials of each task; None where each task sets them, or LOW..HIGH is given."""
        return None if isinstance(self.repetitions, RepetitionRange) else self.repetitions

    @property
    def repetition_range(self) -> RepetitionRange | None:
        """LOW..HIGH repetitions; None where a fixed number, or none, is given."""
        return self.repetitions if isinstance(self.repetitions, RepetitionRange) else None

    @property
    def executor_name(self) -> str:
        """The name of the executor, without what stands behind its colon."""
        return self.executor.partition(":")[0]

    @property
    def executor_argument(self) -> str:
        """What stands behind the colon of the executor's name, such as a number; empty for nothing."""
        return self.executor.partition(":")[2]


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("agenteval", "evals of agents")
    for row in Settings.rows():
        row.add_to(group)


def nearest_options(parser: pytest.Parser, args: Sequence[str]) -> dict[str, str]:
    """Give what pytest is to print below an unknown option: the option of ours that is nearest to it."""
    # pytest prints ``Parser.extra_info`` only where it refuses the command line.
    options = {name for group in parser._groups for option in group.options for name in option.names()}
    unknown = {arg.partition("=")[0] for arg in args if arg.startswith("--")} - options - {"--"}
    if not unknown:
        return {}
    from pytest_agenteval.text.errors import did_you_mean

    hints = {name: did_you_mean(name, sorted(options)) for name in sorted(unknown)}
    return {name: hint for name, hint in hints.items() if "--agent-" in hint or "--repetitions" in hint}
