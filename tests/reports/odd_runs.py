"""Runs that few people have, and everybody once: killed, resumed, merged, damaged, old, hostile, empty."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import UNSEEN_USAGE, Ask, Event, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import Origin, Trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import RunModel, RunSession, RunSuite, change_header, end_run
from pytest_agenteval.store.run_reader import Run, load_run
from tests.reports import any_runs, screen_runs
from tests.reports.runs import MIXED, PLANNED, RULES_MODEL, key, store_run, trial

HOSTILE = (
    "</script><script>window.PWNED=1</script><img src=x onerror='window.PWNED=2'><!--<script> "
    "javascript:window.PWNED=3 [x](javascript:alert(1)) \u202egnp.exe\u2066"
)
ROOT = Path(__file__).parents[1]
OLDEST = (*sorted((ROOT / "store" / "golden" / "runs").glob("v*")), ROOT / "store" / "stored_before")
FROZEN = tuple(folder.parent for folder in sorted((ROOT / "frozen" / "projects").glob("stored*/*/run.json")))
"""Runs that earlier versions wrote, and those of which every screen is held."""

CLAUDE = RunModel("claude", "anthropic/claude")


def hostile(root: Path) -> Run:
    """Give a run in which every text that is not ours tries to become markup, a link or another order."""
    grade = Grade(HOSTILE, 0.0, HOSTILE, (Check(HOSTILE, False, HOSTILE, HOSTILE),), {HOSTILE: HOSTILE})
    call = ToolCall("c", 1, 0, HOSTILE, {HOSTILE: HOSTILE}, result={HOSTILE: [HOSTILE]}, tape="live")
    transcript = Transcript(
        messages=(
            Message("system", HOSTILE),
            Message("user", HOSTILE),
            Message("assistant", HOSTILE, calls=(call,), turn=1),
        ),
        calls=(call,),
        events=(Event(0.1, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}),),
    )
    after = Tree({HOSTILE.replace("/", "_"): FileText(str(hash(HOSTILE)), len(HOSTILE), HOSTILE)})
    one = trial(
        "a",
        1,
        0.0,
        HOSTILE,
        key=key(HOSTILE, model=HOSTILE, variant=HOSTILE),
        grades=(grade,),
        transcript=transcript,
        outcome=Outcome(Answer(HOSTILE, {HOSTILE: HOSTILE}), Tree(), after),
        **dict.fromkeys(("file", "message", "traceback", "output", "log", "workspace", "limit"), HOSTILE),
        tags=(HOSTILE,),
    )
    return store_run(root, [one], models=(RunModel(HOSTILE, HOSTILE, note=HOSTILE),))


def hostile_models(root: Path) -> Run:
    """Give a run of three models and a tool whose names try to become markup or another order."""
    names = [f"{HOSTILE} {number}" for number in range(3)]
    call = ToolCall("c", 1, 0, HOSTILE, {}, result="a", started=1.0, ended=2.0)
    transcript = Transcript(
        (Message("assistant", "", calls=(call,), turn=1),), (call,), (Ask(1, 0.0, 1.0, Usage(10, 1)),)
    )
    trials = [
        trial("a", 1, 0.5, HOSTILE, key=key("a", model=name), transcript=transcript, seconds=2.0)
        for name in names
    ]
    return store_run(root, trials, models=tuple(RunModel(name, name) for name in names))


def markup(root: Path) -> Run:
    """Give names that are rows, links, code and emphasis in Markdown, or rows of a terminal's table."""
    names = ("a|b", "`x`", "[y](z)", "**bold**", "| - |", "two  spaces", "0.50", "all", "", "# head")
    trials = [trial(f"t{at}", 1, at / 9, name) for at, name in enumerate(names)]
    suite = TrialKey("s | 0.50 | 1 of 1", "t", "card", "rules", "", 1)
    trials.append(trial("t", 1, 0.25, "|", key=suite))
    suites = (RunSuite("s", "capability", "card"), RunSuite(suite.suite, "capability", "card"))
    return store_run(root, trials, suites=suites)


def eighths(root: Path) -> Run:
    """Give scores that lie between two figures of two digits, or next to an end."""
    scores = [*(at / 8 for at in range(9)), 0.004, 0.996, 0.005, 0.995, 1 / 3]
    costs = (None, 0.0, 0.03125, 1.125, 0.00003)
    trials = []
    for at, score in enumerate(scores):
        usage = Usage(10 * at, 10, cost_usd=costs[at % len(costs)], asks=1, attempts=1)
        reply = Ask(1, 0.0, 0.0625 * (at + 1), usage)
        said = Transcript(asks=(reply,), usage=usage)
        named = key(f"t{at}", model="claude")
        trials.append(trial("", 1, score, f"b{at}", key=named, transcript=said, seconds=0.125 * at))
    return store_run(root, trials, models=(CLAUDE,))


def unknown(root: Path) -> Run:
    """Give replies without tokens, without a price, unseen ones, and what is known of some of them."""
    usages = (
        Usage(1000, 20, cost_usd=None, asks=1, attempts=1),
        Usage(None, None, None, None, None, asks=2, attempts=2, partial_tokens=70, partial_cost_usd=0.5),
        Usage(None, 5, cost_usd=0.25, asks=1, attempts=1),
        UNSEEN_USAGE,
        Usage(0, 0, cost_usd=None, asks=1),
        Usage(),
    )
    trials = [
        trial("", 1, 1.0, "x", key=key(f"t{at}", model="claude"), transcript=Transcript(usage=usage))
        for at, usage in enumerate(usages)
    ]
    return store_run(root, trials, models=(CLAUDE,))


def free(root: Path) -> Run:
    """Give replies that took tokens and cost nothing, and one long turn."""
    usage = Usage(1, 0, cost_usd=0.0, asks=1, attempts=1)
    asks = [Ask(1, 0.0, seconds, usage) for seconds in (62.5, 59.96, 3599.5)]
    trials = [
        trial("", 1, 0.5, key=key(f"t{at}", model="claude"), transcript=Transcript(asks=(ask,), usage=usage),
              seconds=ask.ended)
        for at, ask in enumerate(asks)
    ]  # fmt: skip
    return store_run(root, trials, models=(CLAUDE,), ended_at="2026-11-21T10:30:17.500+00:00")


def halves(root: Path) -> Run:
    """Give times that lie between two figures: half of the turns took 62.5 ms, and all agents 62.5 s."""
    usage = Usage(1, 1, cost_usd=0.03125, asks=1, attempts=1)
    asks = [Ask(1, 0.0, seconds, usage) for seconds in (0.062, 0.063)]
    began = "2026-11-21T09:30:15.000+00:00"
    took = {"seconds": 31.25, "wall_seconds": 62.5, "started_at": began}
    trials = [
        trial("", 1, 0.625, key=key(f"t{at}", model="claude"), transcript=Transcript((), (), (ask,)), **took)
        for at, ask in enumerate(asks)
    ]
    return store_run(root, trials, models=(CLAUDE,), ended_at="2026-11-21T09:31:17.500+00:00")


def mixed(root: Path) -> Run:
    """Give the run whose figures other tests work out by hand."""
    return store_run(root, MIXED, PLANNED)


def planned_only(root: Path) -> Run:
    """Give a run of which no trial has ended."""
    return store_run(root, [], PLANNED)


def empty(root: Path) -> Run:
    """Give a run of which nothing is known."""
    return store_run(root, [])


def all_errored(root: Path) -> Run:
    """Give a run of which no trial has a score."""
    return store_run(root, [trial(f"t{at}", 1, None, message="429 Too Many Requests") for at in range(4)])


def own_models(root: Path) -> Run:
    """Give agents that called models of their own choice."""
    usage = Usage(100, 10, cost_usd=0.01, asks=1, attempts=1)
    said = Transcript(asks=(Ask(1, 0.0, 1.0, usage, model="gpt-6"),), usage=usage)
    trials = [trial("", 1, score, key=key(f"t{at}", model="own"), transcript=said)
              for at, score in enumerate((1.0, 0.5))]  # fmt: skip
    return store_run(root, trials, models=(RunModel("own", "own"),))


def labelled(root: Path) -> Run:
    """Give trials that should act, or should not, one of which errored."""
    cases = (("positive", True), ("positive", False), ("negative", True), ("negative", None))
    trials = [trial(f"t{at}", 1, at / 3, label=label, acted=acted) for at, (label, acted) in enumerate(cases)]
    return store_run(root, [*trials, trial("t9", 1, None, label="positive")])


def killed(root: Path) -> Run:
    """Give a run of which a process died at a trial: it began, and nobody knows what it took."""
    run = store_run(root, [*MIXED, _real("c1"), _real("c2")], models=(RULES_MODEL, CLAUDE))
    writer = JournalWriter(run.folder, "gw0-11")
    tasks = [any_runs.Task("s", name, "card", "x", "capability", 1) for name in ("c3", "d")]
    keys = (key("c3", model="claude"), key("d"))
    writer.started([any_runs.plan_of(each, task, 1) for each, task in zip(keys, tasks, strict=True)])
    writer.close()
    return load_run(run.folder)


def _real(task: str, attempt: int = 1, score: float = 0.5, **more: object) -> Trial:
    usage = Usage(400, 30, cost_usd=0.02, asks=2, attempts=2)
    asks = (Ask(1, 0.0, 0.75, usage), Ask(2, 1.0, 2.5, usage))
    said = Transcript(asks=asks, usage=usage)
    started = f"2026-11-21T09:3{attempt}:15.000+00:00"
    named = key(task, model="claude")
    fields = {"transcript": said, "attempt": attempt, "started_at": started, "seconds": 2.5}
    return trial("", 1, score, key=named, **{**fields, "wall_seconds": 3.0, **more})


def resumed(root: Path) -> Run:
    """Give a run that was killed, resumed and ended: a trial has three attempts, one of them without end."""
    run = store_run(root, [_real("a"), _real("b", score=0.25)], models=(CLAUDE,))
    writer = JournalWriter(run.folder, "main-2")
    task = any_runs.Task("s", "a", "card", "x", "capability", 1)
    writer.started([any_runs.plan_of(key("a", model="claude"), task, attempt) for attempt in (2, 3)])
    writer.finished([_real("a", 3, score=1.0, seconds=2.0), _real("c", 3)])
    writer.close()
    command = ("pytest", "--agent-resume")
    change_header(run.folder, lambda header: header.resumed_at("2026-11-21T10:00:00+00:00", command))
    end_run(run.folder, "2026-11-21T10:00:31+00:00", 0)
    return load_run(run.folder)


def regraded(root: Path) -> Run:
    """Give trials of another run with grades of their own."""
    origin = Origin("20261120-000000-claude", 1, regraded=True)
    run = store_run(root, [_real(name, origin=origin) for name in "abc"], models=(CLAUDE,))
    change_header(run.folder, lambda header: replace(header, regraded=(origin.run,)))
    end_run(run.folder, "2026-11-21T09:31:00+00:00", 0)
    return load_run(run.folder)


def reused(root: Path) -> Run:
    """Give a run that took trials over from another one, and tried the rest."""
    origin = Origin("20261120-000000-claude", 1)
    trials = [_real("a", origin=origin), _real("b", origin=origin), _real("c")]
    run = store_run(root, trials, models=(CLAUDE,), ended_at=screen_runs.ENDED)
    change_header(run.folder, lambda header: replace(header, reused=(origin.run,)))
    return load_run(run.folder)


def merged(root: Path) -> Run:
    """Give two runs of two machines as one."""
    pairs = [[_real(name, at), _real(f"{name}2", at)] for at, name in enumerate("ab", 1)]
    parts = [store_run(root, pair, models=(CLAUDE,), ended_at=screen_runs.ENDED) for pair in pairs]
    names = [part.folder.name for part in parts]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["merge", *names, "--into", "merged", "--results", str(root)]) == 0
    for part in parts:
        shutil.rmtree(part.folder)
    return load_run(root / "merged")


def side_by_side(root: Path) -> Run:
    """Give a run whose sessions overlapped, and of which one never ended."""
    run = store_run(root, [_real("a"), _real("b", 2)], models=(CLAUDE,), ended_at=screen_runs.ENDED)
    sessions = (RunSession("2026-11-21T09:20:00+00:00", "2026-11-21T09:31:00+00:00"),
                RunSession("2026-11-21T09:00:00+00:00"))  # fmt: skip
    change_header(run.folder, lambda header: replace(header, sessions=sessions))
    return load_run(run.folder)


def _damaged(change: Callable[[Path], None]) -> Callable[[Path], Run]:
    def make(root: Path) -> Run:
        run = store_run(root, [_real(f"t{at}", score=at / 11) for at in range(12)], models=(CLAUDE,))
        change(run.folder)
        return load_run(run.folder)

    return make


def _flip(folder: Path) -> None:
    path = folder / "journal-main.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"seconds"', b'"seconts"')
    lines[7] = lines[7][: len(lines[7]) // 2] + b"\n"
    path.write_bytes(b"".join(lines))


def _double(folder: Path) -> None:
    path = folder / "journal-main.jsonl"
    path.write_bytes(path.read_bytes() * 2)


def _lose_transcripts(folder: Path) -> None:
    (folder / "transcripts-main.jsonl").unlink()


def _lose_header(folder: Path) -> None:
    header = folder / "run.json"
    header.write_text(header.read_text(encoding="utf-8").replace('"ended_at"', '"ended"'), encoding="utf-8")


def stored(folder: Path) -> Callable[[Path], Run]:
    """Give what copies a stored run into a folder of runs."""

    def make(root: Path) -> Run:
        shutil.copytree(folder, root / folder.name)
        return load_run(root / folder.name)

    return make


def _spent(tokens: int, usd: float, seconds: float) -> Callable[[Path], Run]:
    def make(root: Path) -> Run:
        usage = Usage(tokens, 0, cost_usd=usd, asks=1, attempts=1)
        said = Transcript(asks=(Ask(1, 0.0, seconds, usage),), usage=usage)
        trials = [trial("", 1, at / 4, key=key(f"t{at}", model="claude"), transcript=said, seconds=seconds)
                  for at in range(5)]  # fmt: skip
        return store_run(root, trials, models=(CLAUDE,), ended_at=screen_runs.ENDED)

    return make


ODD_PAIRS: Mapping[str, tuple[Callable[[Path], Run], Callable[[Path], Run]]] = {
    "little more": (_spent(100_000, 0.5, 2.0), _spent(100_400, 0.4999, 2.001)),
    "much more": (_spent(100, 0.0001, 0.03), _spent(1_234_567, 12.5, 75.0)),
    "from nothing": (_spent(0, 0.0, 0.0), _spent(7, 0.00001, 0.0995)),
    "nothing in common": (mixed, eighths),
    "nothing ended": (mixed, planned_only),
    "known and unknown": (eighths, unknown),
}
"""Two runs, the old one first."""


def _named() -> Iterator[tuple[str, Callable[[Path], Run]]]:
    makers = (
        hostile, hostile_models, markup, eighths, unknown, free, halves, mixed, planned_only, empty,
        all_errored, own_models, labelled, killed, resumed, regraded, reused, merged, side_by_side,
    )  # fmt: skip
    yield from ((make.__name__, make) for make in makers)
    for change in (_flip, _double, _lose_transcripts, _lose_header):
        yield f"damaged{change.__name__}", _damaged(change)
    yield from ((folder.name, stored(folder)) for folder in (*OLDEST, *FROZEN))


ODD_RUNS: Mapping[str, Callable[[Path], Run]] = dict(_named())
"""Each by its name: a function that writes it into a folder of runs."""
