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
        "models to run, a comma list: claude, gpt, gemini, a litellm id, hf/NAME, vllm/NAME, or offline "
        "rules, oracle, nop, scripted",
        MODELS,
        (),
        name="model",
        several=True,
    )
    repetitions = Option(
        "trials of each task and model (default: the task's trials_per_run); LOW..HIGH runs more than LOW "
        "only where the comparison with the baseline needs them",
        ValueType("N", whole_or_range, "a whole number, 1 or more, or LOW..HIGH, as in 2..6"),
        None,
        flag="--repetitions",
    )
    max_trials = count(
        "with --repetitions=LOW..HIGH: suites that would take the run above N trials get only LOW"
    )
    variants: Option[tuple[Variant, ...]] = Option(
        "a prompt variant: files that replace the agent's prompts; runs beside the agent's own prompts",
        ValueType("NAME=PATH", by_function("read_variants"), "NAME=PATH"),
        (),
        name="prompt",
        several=True,
    )
    judges: Option[tuple[str, ...]] = Option(
        "models for graders that need a judge, a comma list; several judges vote together",
        MODELS,
        (),
        name="judge",
        several=True,
    )
    user = Option(
        "the model that plays simulated users (`user` in a task)",
        ValueType("NAME", text, "the name of a model"),
        "",
    )
    self_judge = switch("do not warn if a model judges its own trials")
    split = Option(
        "which tasks: dev, held_out or all (default: dev)", choice("SPLIT", "dev", "held_out", "all"), "dev"
    )
    sample = count("run N tasks of each bucket, drawn with --agent-seed")
    only = Option(
        "run only trials with these endings in the latest run, as in missed,errored; missed@RUN: of that run",
        ValueType("ENDINGS", text, "endings, as in missed,errored"),
        "",
    )
    shard = Option(
        "run part I of N, each on its own machine, as in 2/4; agenteval merge joins the runs "
        "(docs/guides/clusters.md)",
        ValueType("I/N", shard, "a part of several, as in 2/4: the second of four"),
        None,
    )
    audit = switch(
        "check tasks and graders: the reference solution must score 1.0; doing nothing and "
        "planted mistakes must miss; also -m agenteval_audit"
    )
    max_steps = count("limit on a trial's model replies; overrides the task's")
    timeout = Option("limit on a trial's seconds; overrides the task's", SECONDS, None)
    regrade: Option[tuple[str, ...]] = Option(
        "grade the trials of a stored run again, without running the agent: a path, name, prefix, latest or "
        "MODEL@YYYYMMDD",
        RUNS,
        (),
        several=True,
    )
    resume = Option(
        "continue an interrupted run in its folder: run what is missing or errored (default: the latest run)",
        RUN,
        "",
        alone="latest",
    )
    reuse: Option[tuple[str, ...]] = Option(
        "start a new run with the finished, unchanged trials of an earlier run; regrade where only graders "
        "changed (default: the latest run)",
        RUNS,
        (),
        several=True,
        alone="latest",
    )
    baseline = Option(
        "compare with this run or baseline file at the end; latest is the previous run; or none",
        ValueType("RUN", path_or_name, f"a baseline's file, or {RUN.expected}"),
        "",
    )
    gate: Option[Mapping[str, Any] | None] = Option(
        "what each suite must reach; overrides its suite.yaml: score=0.8, not_worse=true, errored=0.05, ... "
        "(docs/guides/gates.md); none turns all gates off",
        ValueType(
            "KEY=VALUE", by_function("read_gate"), "KEY=VALUE, as in score=0.8,not_worse=true; or none"
        ),
        {},
        several=True,
    )
    reports: Option[tuple[Path, ...]] = Option(
        "write the run's report to this file; its suffix is the format: .html, .md, ...; none writes no file",
        ValueType("FILE", by_function("read_report_files"), "a file's path, or a list of them"),
        (),
        name="report",
        several=True,
    )
    seed = Option(
        "the seed of every random choice (default: 0)",
        ValueType("N", whole(0), "a whole number, 0 or more"),
        0,
    )
    concurrency = Option("trials at once in each process (default: 10)", COUNT, 10)
    executor = Option(
        "where trials run: local, processes, processes:N, ray, ray:N (default: local)",
        ValueType("NAME", text, "the name of an executor"),
        "local",
    )
    record: Option[RecordMode] = Option(
        "recordings of tools: none (replay only), once, new_episodes, all (default: none)",
        choice("MODE", *TOOL_MODES),
        "none",
    )
    record_chat: Option[RecordMode] = Option(
        "recordings of models: off (call the model, record nothing), none (replay only), once, "
        "new_episodes, all (default: off)",
        choice("MODE", *CHAT_MODES),
        "off",
    )
    live = Option(
        "send the agent's own requests, without recording them (suite.yaml: live); by default they are "
        "replayed like tools. Requests to this machine need no option, unless a recording mode is none",
        SWITCH,
        None,
    )
    results = Option(
        "the folder for runs (default: .agenteval/runs), or none",
        ValueType("DIR", folder, "a folder, or none"),
        None,
    )
    run_name = Option(
        "the name of the run's folder (default: start time and models)",
        ValueType("NAME", file_name, "a name for a folder, of letters, digits, '.', '_' and '-'"),
        "",
    )
    keep_workspaces = switch("store each trial's workspace in the run's folder")
    comment = Option(
        "write a pull request comment: verdict, suites, the three worst trials (docs/guides/github.md)",
        ValueType("FILE", folder, "a file in Markdown, or none"),
        None,
    )
    annotations = Option(
        "annotate missed lines of task files in GitHub Actions (default: auto)", ON_OR_OFF, "auto"
    )
    progress = Option(
        "live progress below pytest's lines (default: auto, which shows nothing under -q, -s, --pdb, on CI "
        "servers and without a terminal)",
        ON_OR_OFF,
        "auto",
    )
    strict = switch("a miss in a capability suite fails, too")
    aliases: Option[Mapping[str, Any]] = Option(
        "models by name: an id, or a table with id and settings",
        ValueType("", table, "a table"),
        {},
        name="models",
        flag=None,
    )
    prices: Option[Mapping[str, ModelPrice]] = Option(
        "prices of models in USD for a million tokens: input, output, cached, cache_write, tiers, as_of",
        ValueType("", by_function("read_prices"), "a table for each model"),
        {},
        flag=None,
    )
    redact: Option[tuple[str, ...]] = Option(
        "patterns of further secrets to remove from recordings and runs",
        ValueType("", texts, "a list of regular expressions"),
        (),
        flag=None,
    )
    trial_tokens = count("limit on a trial's tokens, input and output; overrides the task's")
    trial_cost = Option("limit on a trial's cost in US dollars; overrides the task's", DOLLARS, None)
    max_cost = Option(
        "budget of the whole run in US dollars, judges included; running trials finish, and --agent-resume "
        "continues (docs/guides/budgets.md)",
        DOLLARS,
        None,
    )
    max_tokens = count("budget of the whole run in tokens, judges included")
    dry_run = switch("run nothing; show what would run, and estimated trials, tokens and US dollars")
    requests_at_once = count(
        "limit on parallel requests to each model, over all processes (default: as many as trials at once)"
    )
    requests_per_minute = count("limit on requests to each model per minute (default: none)")
    tokens_per_minute = count("limit on each model's tokens per minute, requests and replies (default: none)")
    patience_seconds = Option(
        "how long to wait for a model that no longer replies before the remaining trials do not run "
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
    def allows_loopback(self) -> bool:
        """Whether agents may send requests to this machine without permission: no mode is set to ``none``."""
        return "none" not in (self.values.get("record"), self.values.get("record_chat"))

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
