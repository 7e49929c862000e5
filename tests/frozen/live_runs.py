"""Runs of pytest: the evals that ship, every ending, recordings, and verbs that start pytest."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pytest_agenteval import Grade, JournalEntry, load_run
from tests.frozen.commands import (
    PROJECTS,
    ROOT,
    Printed,
    Scratch,
    agenteval,
    latest,
    placed,
    pytest,
    pytest_here,
    shows,
    started,
    steady,
    steady_document,
)
from tests.frozen.stored_runs import against_schema

LETTERS = PROJECTS / "letters"
EVALS = (ROOT / "evals", ROOT / "fixtures", ROOT / "cassettes")
SHIPPED = (ROOT / "docs" / "start" / "shipped-suites.md").read_text(encoding="utf-8")

ENDINGS: Mapping[str, str] = {
    "every-ending": "evals/greetings evals/strict -v --junitxml=j.xml",
    "short": "evals/greetings evals/strict",
    "quiet": "evals/greetings evals/strict -q",
    "collected": "evals --collect-only -q --agent-split=all",
    "passed": "evals/greetings -k passes",
    "missed": "evals/greetings -k misses",
    "missed-strict": "evals/greetings -k misses --agent-strict",
    "failed": "evals/strict",
    "errored": "evals/greetings -k errored",
    "only": "evals/greetings --agent-only=missed@first",
    "no-tests": "evals/greetings -k nothing",
    "gate-broken": "evals/greetings -k 'passes or misses' --agent-gate=score=0.9",
    "gate-held": "evals/greetings -k 'passes or misses' --agent-gate=score=0.5 --agent-baseline=first",
    "no-such-option": "evals --agent-steps=2",
    "wrong-value": "evals --agent-max-steps=many",
    "missing-key": "evals/greetings --agent-model=claude",
    "no-such-run": "evals --agent-resume=2020",
    "broken-file": "broken",
    "interrupted": "evals/greetings",
    "resumed": "evals/greetings --agent-resume",
    "budget": "evals/prompted --repetitions=3 --agent-concurrency=1 --agent-max-tokens=120",
    "reused": "evals/greetings --agent-reuse=first",
    "regraded": "evals/greetings --agent-regrade=first",
    "dry-run": "evals/greetings evals/prompted --repetitions=3 --agent-dry-run",
}
"""Commands one after the other in one project; ``first`` is the run of the first of them."""

OF_PROCESSES: Mapping[str, str] = {
    "audit": "audit evals/strict",
    "calibrate": "calibrate evals/calibration/tidy.calibration.yaml --judge=perfect,inverted",
    "improve": "improve evals/prompted --prompts prompts/*.md --rounds 1 --coding-agent 'python improver.py'",
}
GIT = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def endings(scratch: Scratch) -> dict[str, str]:
    """Give exit status and screen of each ending and mistake, and JUnit's file of all endings."""
    folder = scratch.project(LETTERS)
    texts: dict[str, str] = {}
    for name, command in ENDINGS.items():
        os.environ["INTERRUPTED"] = "yes" if name == "interrupted" else ""
        run_name = ["--agent-run-name=first"] if not texts else []
        printed = pytest_here(folder, *shlex.split(command), *run_name)
        texts[f"{name}.txt"] = f"$ pytest {command}\n{steady(printed, folder)}"
    junit = steady((folder / "j.xml").read_text(encoding="utf-8"), folder)
    junit = re.sub(r'(time|timestamp|hostname)="[^"]*"', r'\1="?"', junit)
    junit = re.sub(r'(name="agenteval\.\w*seconds" value)="[^"]*"', r'\1="?"', junit)
    texts["junit.xml"] = re.sub(r"(?=<(?!/|property |skipped|failure|error|system))", "\n", junit).strip()
    return texts


def cassettes(scratch: Scratch) -> dict[str, str]:
    """Give what agents see of recordings: of HTTP, tools, chats, vcrpy's own, and agents' own requests."""
    folder = scratch.project(LETTERS)
    command = "evals/played -v --agent-model=scripted,local --agent-record-chat=none"
    printed = pytest(folder, *command.split())
    texts = {
        "played.txt": f"$ pytest {command}\n{steady(printed, folder)}",
        "transcripts.txt": steady("\n".join(_transcripts(latest(folder))), folder),
    }
    for kind in ("python", "command", "tools", "workspace"):
        folder = scratch.folder / f"of_{kind}"
        folder.mkdir()
        written = agenteval(folder, "init", *([f"--agent={kind}"] if kind != "python" else []))
        printed = pytest(folder, "-v")
        texts[f"init-{kind}.txt"] = f"{placed(written, folder)}\n{steady(printed, folder)}"
    return texts


def _transcripts(run: Path) -> Iterator[str]:
    """Give messages and calls of each trial, without times."""
    stored = load_run(run)
    for entry in sorted(stored.entries, key=lambda entry: entry.key):
        transcript = stored.trial(entry).transcript
        yield f"{entry.key.task}[{entry.key.model}]: {transcript.usage}"
        yield from (f"  {message.role}: {message.content}" for message in transcript.messages)
        yield from (
            f"  {call.tool}({dict(call.args)}) -> {call.error or call.result!r}, {call.tape}"
            for call in transcript.calls
        )


def documents_of_processes(scratch: Scratch) -> dict[str, str]:
    """Give screen and document of each verb that starts pytest."""
    texts = {}
    for name, command in OF_PROCESSES.items():
        folder = scratch.project(LETTERS, name=name)
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "Letters")):
            started(folder, ["git", *GIT, *words])
        printed = started(folder, ["agenteval", *shlex.split(command), "--json", "document.json"])
        document = (folder / "document.json").read_text(encoding="utf-8")
        texts[f"{name}.txt"] = f"$ agenteval {command}\n{steady(str(printed), folder)}"
        texts[f"{name}.txt"] += f"\ndocument: {against_schema(command, document)}"
        texts[f"{name}.json"] = steady_document(document, folder)
    return texts


def scores(scratch: Scratch) -> dict[str, str]:
    """Give every grade of every shipped task with each offline model, here and in processes."""
    folder = scratch.project(*EVALS)
    shown = pytest(folder, "evals", "--agent-run-name=dev")
    runs = {
        "held_out": "evals --agent-split=held_out",
        "extremes": "evals --agent-model=oracle,nop --agent-split=all",
        "processes": "evals --agent-model=oracle,nop,rules --agent-split=all --agent-executor=processes "
        "--repetitions=1 --agent-seed=7",
        "workers": "evals/card --repetitions=1 -p xdist -n2",
    }
    for name, options in runs.items():
        pytest(folder, "-q", *options.split(), f"--agent-run-name={name}")
    entries = {name: load_run(folder / ".agenteval" / "runs" / name).entries for name in ("dev", *runs)}
    local = [entry for name in ("dev", "held_out", "extremes") for entry in entries[name]]
    texts = {f"{model}.txt": "\n".join(_lines(local, model)) for model in ("rules", "oracle", "nop")}
    known = {entry.key: _line(entry) for entry in local}
    for name in ("processes", "workers"):
        lines = {entry.key: _line(entry) for entry in entries[name]}
        other = [f"{key}: {line}" for key, line in lines.items() if line != known[key]]
        texts[f"{name}.txt"] = "\n".join([f"{len(lines)} trials; other than in one process:", *other])
    for seed in ("0", "1"):
        drawing = ("--collect-only", "-q", "--agent-sample=2", f"--agent-seed={seed}")
        drawn = re.findall(r"^evals/\S+\[.*", pytest(folder, "evals/ko", *drawing).out, re.MULTILINE)
        texts[f"sample-of-seed-{seed}.txt"] = "\n".join(drawn)
    texts["figures.txt"] = "\n".join(_figures(local, model) for model in ("oracle", "rules", "nop"))
    texts["screen.txt"] = _screen(shown, folder)
    return texts


def _lines(entries: Sequence[JournalEntry], model: str) -> Iterator[str]:
    """Give a line for each task, and several only where its repetitions differ."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for entry in entries:
        if entry.key.model == model:
            found[entry.key.suite, entry.key.task][_line(entry)] += 1
    for (suite, task), lines in sorted(found.items()):
        yield from (f"{suite}/{task} x{count}: {line}" for line, count in sorted(lines.items()))


def _line(entry: JournalEntry) -> str:
    """Give ending, score and grades of a trial, each with the beginning of its reason."""
    return " | ".join([f"{entry.ending} {entry.score} {entry.cause}".rstrip(), *map(_grade, entry.grades)])


def _grade(grade: Grade) -> str:
    reason = " ".join(grade.rationale.split())
    if len(reason) > 40:
        reason = f"{reason[:30]}… {sha256(grade.rationale.encode()).hexdigest()[:8]}"
    return f"{grade.grader} {grade.undecided or grade.score} {reason}"


def _figures(entries: Sequence[JournalEntry], model: str) -> str:
    """Give what a model reaches in each suite."""
    cells = []
    for suite in ("card", "pkm", "ko"):
        own = [entry for entry in entries if (entry.key.model, entry.key.suite) == (model, suite)]
        dev = [entry for entry in own if entry.split != "held_out"]
        mean = sum(entry.score or 0 for entry in dev) / len(dev)
        passed = sum(entry.ending == "passed" for entry in dev)
        cells += [f"{mean:.2f}", f"{passed} of {len(dev)}"]
    return f"| `{model}` | {' | '.join(cells)} |"


def _screen(shown: Printed, folder: Path) -> str:
    """Give a newcomer's first run, and whether the page shows its end."""
    (end,) = re.findall(r"^```text\n(wall .*?)^run: .*?^```$", SHIPPED, re.MULTILINE | re.DOTALL)
    text = steady(shown, folder)
    return f"{text}\nshipped-suites.md {shows(text, steady(end, folder))}"
