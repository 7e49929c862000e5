"""The table of options: what a user may set for a run, and where. A new option is a row here.

docs/options.md is made from it (``python -m pytest_agenteval.session.options_page``); a test compares them.
Imported in every pytest run, used or not: the standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.session.options import (
    Option,
    OptionValues,
    RawValue,
    RepetitionRange,
    Shard,
    WrongValue,
    file_name,
    folder,
    names,
    path_or_name,
    seconds,
    shard,
    switch,
    table,
    text,
    texts,
    whole,
    whole_or_range,
    word_of,
)

if TYPE_CHECKING:
    import pytest

    from pytest_agenteval.records.plan import ModelPrice, RecordMode, Variant


DOLLARS = "a number of US dollars above 0"
COUNT = "a whole number, 1 or more"


def dollars(raw: RawValue) -> float:
    """Read an amount of US dollars above 0, ``$5`` too."""
    return seconds(raw._replace(value=str(raw.value).strip().removeprefix("$")))


class BudgetOptions(OptionValues):
    """What each trial may cost, and all of a run; and whether it is only said what it would."""

    trial_tokens: Option[int | None] = Option(
        "trial_tokens",
        "N",
        "tokens of each trial, input and output, before what the task says",
        whole(1),
        None,
        COUNT,
    )
    trial_cost: Option[float | None] = Option(
        "trial_cost",
        "USD",
        "US dollars of each trial, before what the task says",
        dollars,
        None,
        DOLLARS,
    )
    max_cost: Option[float | None] = Option(
        "max_cost",
        "USD",
        "US dollars of the whole run, judges too: what is in flight ends, nothing more begins, and "
        "--agent-resume goes on (docs/budgets.md)",
        dollars,
        None,
        DOLLARS,
    )
    max_tokens: Option[int | None] = Option(
        "max_tokens",
        "N",
        "tokens of the whole run, input and output, judges' too, likewise",
        whole(1),
        None,
        COUNT,
    )
    dry_run = Option(
        "dry_run",
        "",
        "run nothing and say what would be run, and what it would take: trials, tokens, US dollars",
        switch,
        False,
        "true or false",
    )


LOADING_OPTIONS = (
    "device",
    "dtype",
    "quantization",
    "max_model_len",
    "tensor_parallel_size",
    "gpu_memory_utilization",
)
"""Settings of a model of ours that an option may say for all of them."""


def share(raw: RawValue) -> float:
    """Read a number above 0, 1 at most."""
    try:
        number = float(str(raw.value))
    except ValueError:
        raise WrongValue from None
    if not 0 < number <= 1:
        raise WrongValue
    return number


def device_name(raw: RawValue) -> str:
    """Read torch's name of a device, or ``auto``."""
    name, _, number = str(raw.value).partition(":")
    if name not in ("auto", "cpu", "mps", "cuda") or (number and name != "cuda"):
        raise WrongValue
    if ":" in str(raw.value) and not number.isdecimal():
        raise WrongValue
    return str(raw.value)


class LocalModelOptions(OptionValues):
    """How models that begin with ``hf/`` or ``vllm/`` are loaded, where their own tables do not say it."""

    device: Option[str | None] = Option(
        "device",
        "DEVICE",
        "where hf/NAME runs: auto, cpu, cuda, cuda:1, mps (default: auto); cuda:1 also chooses the GPU of "
        "vllm/NAME",
        device_name,
        None,
        "auto, cpu, cuda, cuda:N or mps",
    )
    dtype: Option[str | None] = Option(
        "dtype",
        "DTYPE",
        "the numbers in which hf/NAME and vllm/NAME compute: auto, float32, float16, bfloat16 (default: "
        "auto)",
        word_of(("auto", "float32", "float16", "bfloat16")),
        None,
        "one of auto, float32, float16, bfloat16",
    )
    quantization: Option[str | None] = Option(
        "quantization",
        "BITS",
        "load hf/NAME and vllm/NAME with smaller weights: 4bit, 8bit; both need a GPU",
        word_of(("4bit", "8bit")),
        None,
        "4bit or 8bit",
    )
    max_model_len: Option[int | None] = Option(
        "max_model_len",
        "N",
        "the tokens of prompt and reply together, at most, of hf/NAME and vllm/NAME (default: its own)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    tensor_parallel_size: Option[int | None] = Option(
        "tensor_parallel_size",
        "N",
        "the GPUs that vllm/NAME is spread over (default: vLLM's own, 1)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    gpu_memory_utilization: Option[float | None] = Option(
        "gpu_memory_utilization",
        "SHARE",
        "the share of each GPU's memory that vllm/NAME may take, as in 0.8 (default: vLLM's own)",
        share,
        None,
        "a number above 0, 1 at most",
    )


RATE_OPTIONS = (
    "requests_at_once",
    "requests_at_start",
    "requests_per_minute",
    "tokens_per_minute",
    "patience_seconds",
)
"""Settings of a model of ours that an option may say for all of them."""


class RateOptions(OptionValues):
    """How much each model is asked by the whole run, where its own table does not say it."""

    requests_at_once: Option[int | None] = Option(
        "requests_at_once",
        "N",
        "requests under way at once to each model, at most, by all processes of the run together (default: "
        "as many as they have trials at once)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    requests_at_start: Option[int | None] = Option(
        "requests_at_start",
        "N",
        "requests under way at once to each model with which a run begins (default: 64): they grow with the "
        "replies, and are halved where the provider says that it is asked too much",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    requests_per_minute: Option[int | None] = Option(
        "requests_per_minute",
        "N",
        "requests to each model in any minute, at most (default: no limit)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    tokens_per_minute: Option[int | None] = Option(
        "tokens_per_minute",
        "N",
        "tokens of requests and replies of each model in a minute (default: no limit)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    patience_seconds: Option[float | None] = Option(
        "patience_seconds",
        "S",
        "so long a model is waited for that replies to nobody any more, before the rest is not run "
        "(default: 120)",
        seconds,
        None,
        "a number of seconds above 0",
    )


RESULTS = ".agenteval/runs"
TOOL_MODES: tuple[RecordMode, ...] = ("none", "once", "new_episodes", "all")
CHAT_MODES: tuple[RecordMode, ...] = ("off", *TOOL_MODES)
MODELS = "the name of a model, or a comma list"
YES_OR_NO = "true or false"


def variants(raw: RawValue) -> tuple[Variant, ...]:
    """Read the prompt files of each ``NAME=PATH``."""
    from pytest_agenteval.session.option_values import read_variants

    return read_variants(names(raw), raw.place, raw.folder)


def gate_rules(raw: RawValue) -> Mapping[str, Any] | None:
    """Read what suites have to reach; None where every gate is switched off."""
    from pytest_agenteval.session.option_values import read_gate

    return read_gate(raw)


def own_prices(raw: RawValue) -> Mapping[str, ModelPrice]:
    """Read what models cost."""
    from pytest_agenteval.session.option_values import read_prices

    return read_prices(raw)


def report_files(raw: RawValue) -> tuple[Path, ...]:
    """Read the files that reports are written to; one that nobody could write is refused before the run.

    ``none`` is no file.
    """
    from pytest_agenteval.reports.report_files import check_report_path, listed_files
    from pytest_agenteval.text.errors import UsageMistake

    files = raw.value if isinstance(raw.value, list) else listed_files(str(raw.value))
    if files == ["none"]:
        return ()
    paths = tuple(raw.folder / str(file) for file in files)
    for path in paths:
        try:
            check_report_path(path)
        except UsageMistake as mistake:
            raise UsageMistake(f"{raw.place}: {mistake}") from None
    return paths


class Settings(BudgetOptions, LocalModelOptions, RateOptions):
    """What was asked for, by name; what nobody said is as the row's default says."""

    models: Option[tuple[str, ...]] = Option(
        "model",
        "NAME",
        "models to try, comma lists: an alias (claude, gpt, gemini), a litellm id, hf/NAME, vllm/NAME, or "
        "offline: rules, oracle, nop, scripted",
        names,
        (),
        MODELS,
        several=True,
    )
    repetitions: Option[int | RepetitionRange | None] = Option(
        "repetitions",
        "N",
        "trials of each task and model (default: the task's trials_per_run); LOW..HIGH, as in 2..6: more "
        "than LOW where the comparison with the baseline needs them",
        whole_or_range,
        None,
        "a whole number, 1 or more, or LOW..HIGH, as in 2..6",
        flag="--repetitions",
    )
    max_trials: Option[int | None] = Option(
        "max_trials",
        "N",
        "under --repetitions=LOW..HIGH: no suite gets more than LOW where the run's trials would be more",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    variants: Option[tuple[Variant, ...]] = Option(
        "prompt",
        "NAME=PATH",
        "a variant: prompt files that replace the agent's own, tried beside them",
        variants,
        (),
        "NAME=PATH",
        several=True,
    )
    judges: Option[tuple[str, ...]] = Option(
        "judge",
        "NAME",
        "models that judge where a grader asks for judgement, comma lists; several are an ensemble",
        names,
        (),
        MODELS,
        several=True,
    )
    user: Option[str] = Option(
        "user",
        "NAME",
        "the model that plays the users whom tasks describe (`user` in a task)",
        text,
        "",
        "the name of a model",
    )
    self_judge = Option(
        "self_judge", "", "a model may judge its own trials: no warning", switch, False, YES_OR_NO
    )
    split = Option(
        "split",
        "SPLIT",
        "dev, held_out or all (default: dev)",
        word_of(("dev", "held_out", "all")),
        "dev",
        "one of dev, held_out, all",
    )
    sample: Option[int | None] = Option(
        "sample",
        "N",
        "so many tasks of each bucket, chosen by --agent-seed",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    only = Option(
        "only",
        "ENDINGS",
        "trials that ended so in the latest run: missed,errored; another run: missed@RUN",
        text,
        "",
        "endings, as in missed,errored",
    )
    shard: Option[Shard | None] = Option(
        "shard",
        "I/N",
        "the I-th of N parts of all tests, for a machine each: 2/4; agenteval merge joins their runs "
        "(docs/shards.md)",
        shard,
        None,
        "a part of several, as in 2/4: the second of four",
    )
    audit = Option(
        "audit",
        "",
        "audit tasks and graders: the reference has to reach 1.0, doing nothing and the reference spoilt in "
        "each way have to miss; also asked for by -m agenteval_audit",
        switch,
        False,
        YES_OR_NO,
    )
    max_steps: Option[int | None] = Option(
        "max_steps",
        "N",
        "replies of the model in each trial, before what the task says",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    timeout: Option[float | None] = Option(
        "timeout",
        "S",
        "seconds of each trial, before what the task says",
        seconds,
        None,
        "a number of seconds above 0",
    )
    regrade: Option[tuple[str, ...]] = Option(
        "regrade",
        "RUN",
        "grade the trials of a stored run again, without an agent: a path, name, prefix, latest or "
        "MODEL@YYYYMMDD",
        names,
        (),
        "a run: a path, name, prefix, latest or MODEL@YYYYMMDD",
        several=True,
    )
    resume: Option[str] = Option(
        "resume",
        "RUN",
        "go on with a run that was cut short, in its own folder: only what is missing or errored is tried "
        "(default: the latest run)",
        text,
        "",
        "a run: a path, name, prefix, latest or MODEL@YYYYMMDD",
        alone="latest",
    )
    reuse: Option[tuple[str, ...]] = Option(
        "reuse",
        "RUN",
        "take over into a new run what an earlier one has finished and nobody has changed since; where only "
        "graders changed they grade again (default: the latest run)",
        names,
        (),
        "a run: a path, name, prefix, latest or MODEL@YYYYMMDD",
        several=True,
        alone="latest",
    )
    baseline: Option[str] = Option(
        "baseline",
        "RUN",
        "compare with this run, or baseline's file, when the run ends; latest is the run before; or none",
        path_or_name,
        "",
        "a baseline's file, or a run: a path, name, prefix, latest or MODEL@YYYYMMDD",
    )
    gate: Option[Mapping[str, Any] | None] = Option(
        "gate",
        "KEY=VALUE",
        "what each suite has to reach, comma lists, before what its suite.yaml says: score=0.8, "
        "not_worse=true, errored=0.05, ... (docs/gates.md); none switches every gate off",
        gate_rules,
        {},
        "KEY=VALUE, as in score=0.8,not_worse=true; or none",
        several=True,
    )
    reports: Option[tuple[Path, ...]] = Option(
        "report",
        "FILE",
        "write the run's report to this file when it ends, told by its ending: .html, .md, ...; may be given "
        "again; none for no file",
        report_files,
        (),
        "a file's path, or a list of them",
        several=True,
    )
    seed = Option(
        "seed",
        "N",
        "the seed of everything that is drawn (default: 0)",
        whole(0),
        0,
        "a whole number, 0 or more",
    )
    concurrency = Option(
        "concurrency",
        "N",
        "trials at once in each process (default: 10)",
        whole(1),
        10,
        "a whole number, 1 or more",
    )
    executor = Option(
        "executor",
        "NAME",
        "where trials are carried out: local, processes, processes:N, ray, ray:N (default: local)",
        text,
        "local",
        "the name of an executor",
    )
    record: Option[RecordMode] = Option(
        "record",
        "MODE",
        "how tools meet their cassettes: none, once, new_episodes, all (default: none)",
        word_of(TOOL_MODES),
        "none",
        "one of none, once, new_episodes, all",
    )
    record_chat: Option[RecordMode] = Option(
        "record_chat",
        "MODE",
        "how chats meet their cassettes: off, none, once, new_episodes, all (default: off)",
        word_of(CHAT_MODES),
        "off",
        "one of off, none, once, new_episodes, all",
    )
    live: Option[bool | None] = Option(
        "live",
        "",
        "what agents ask by themselves goes out, untaped; else it meets the cassettes like tools "
        "(suite.yaml: live)",
        switch,
        None,
        YES_OR_NO,
    )
    results: Option[Path | None] = Option(
        "results",
        "DIR",
        "the folder that keeps runs (default: .agenteval/runs), or none",
        folder,
        None,
        "a folder, or none",
    )
    run_name = Option(
        "run_name",
        "NAME",
        "the name of the run's folder (default: when it began, with its models)",
        file_name,
        "",
        "a name for a folder, of letters, digits, '.', '_' and '-'",
    )
    keep_workspaces = Option(
        "keep_workspaces", "", "keep each trial's workspace in the run's folder", switch, False, YES_OR_NO
    )
    comment: Option[Path | None] = Option(
        "comment",
        "FILE",
        "write the run as a pull request's comment: the verdict, suites, the three worst (docs/github.md)",
        folder,
        None,
        "a file in Markdown, or none",
    )
    annotations = Option(
        "annotations",
        "auto|no",
        "in GitHub Actions, annotate task files at the line of what was missed (default: auto)",
        word_of(("auto", "no")),
        "auto",
        "auto or no",
    )
    progress = Option(
        "progress",
        "auto|no",
        "what the run is at, below pytest's lines on a terminal: auto, or no (default: auto, which shows "
        "nothing under -q, -s and --pdb, on CI servers and where the output is no terminal)",
        word_of(("auto", "no")),
        "auto",
        "auto or no",
    )
    strict = Option("strict", "", "a miss in a capability suite is a failure too", switch, False, YES_OR_NO)
    aliases: Option[Mapping[str, Any]] = Option(
        "models",
        "",
        "models by name: an id, or a table with id and settings",
        table,
        {},
        "a table",
        flag=None,
    )
    prices: Option[Mapping[str, ModelPrice]] = Option(
        "prices",
        "",
        "what models cost, in USD for a million tokens: input, output, cached, cache_write, tiers, as_of",
        own_prices,
        {},
        "a table for each model",
        flag=None,
    )
    redact: Option[tuple[str, ...]] = Option(
        "redact",
        "",
        "patterns of what is secret, besides what is known to be",
        texts,
        (),
        "a list of regular expressions",
        flag=None,
    )

    @property
    def fixed_repetitions(self) -> int | None:
        """How often each task is tried; None where each says so itself, or a look decides."""
        return None if isinstance(self.repetitions, RepetitionRange) else self.repetitions

    @property
    def repetition_range(self) -> RepetitionRange | None:
        """Between which numbers of repetitions a look decides; None where it does not."""
        return self.repetitions if isinstance(self.repetitions, RepetitionRange) else None

    @property
    def most_repetitions(self) -> int | None:
        """How often each task may be tried; None where each says so itself."""
        return self.repetition_range.high if self.repetition_range else self.fixed_repetitions

    @property
    def executor_name(self) -> str:
        """The name of the executor, without what stands behind its colon."""
        return self.executor.partition(":")[0]

    @property
    def executor_argument(self) -> str:
        """What stands behind the colon of the executor's name, such as a number; empty for nothing."""
        return self.executor.partition(":")[2]


def add_options(parser: pytest.Parser) -> None:
    """Declare every option that has a flag."""
    group = parser.getgroup("agenteval", "evals of agents")
    for row in Settings.rows():
        row.add_to(group)


def nearest_options(parser: pytest.Parser, args: Sequence[str]) -> dict[str, str]:
    """Give what pytest says below an unknown option: our option that is most like it.

    pytest prints ``Parser.extra_info`` only where it refuses the command line.
    """
    options = {name for group in parser._groups for option in group.options for name in option.names()}
    passed = {arg.partition("=")[0] for arg in args if arg.startswith("--")}
    unknown = passed - options - {"--"}
    if not unknown:
        return {}
    from pytest_agenteval.text.errors import nearest

    hints = {name: nearest(name, sorted(options)) for name in sorted(unknown)}
    return {name: hint for name, hint in hints.items() if "--agent-" in hint or "--repetitions" in hint}
