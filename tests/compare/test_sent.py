"""What models were told is what a comparison names as changed, and what is another in each trial is not."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.compare.pairing import ComparedRun, SuitePairs, pair_suites, pool_runs
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import Message, Transcript
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.text.json_values import text_digest
from tests.suites import run, suite, task, write

from .samples import side

pytest_plugins = ["pytester"]

KIND = ["You are kind.", "Today [UTC]: {}", "Be brief."]
CURT = ["You are kind.", "Today [UTC]: {}", "Be curt."]


def sent(name: str, texts: Sequence[str], *, tasks: int = 1, stored: bool = True) -> ComparedRun:
    """Give a side whose trials, spread over so many tasks, sent these system prompts."""
    repetitions = len(texts) // tasks
    plain = side(name, {f"b/t{at}": [1.0] * repetitions for at in range(tasks)})
    of_key: dict[TrialKey, str] = {entry.key: text for entry, text in zip(plain.entries, texts, strict=True)}
    entries = tuple(
        replace(
            entry,
            digests=Digests(input="i", sent={"system prompt": text_digest(text)} if text else {"x": "y"}),
        )
        for entry, text in zip(plain.entries, texts, strict=True)
    )
    return replace(
        plain,
        entries=entries,
        transcript_of=(lambda entry: Transcript((Message("system", of_key[entry.key]),))) if stored else None,
    )


def filled(lines: Sequence[str], *values: str, joint: str = "\n") -> list[str]:
    """Give a system prompt for each trial, with what is its own."""
    return [joint.join(lines).format(value) for value in values]


def compared(old: ComparedRun, new: ComparedRun) -> SuitePairs:
    """Pair two sides of one suite."""
    (pairs,) = pair_suites(old, new)
    return pairs


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize(
    ("joint", "lines"),
    [
        ("\n", ("Be brief.", "Be curt.")),
        (" ", ("You are kind. Today [UTC]: … Be brief.", "You are kind. Today [UTC]: … Be curt.")),
    ],
)
def test_the_first_line_that_differs_is_shown_without_what_each_trial_has_of_its_own(
    joint: str, lines: tuple[str, str], tasks: int
) -> None:
    """A date, an id: words that are others in each trial of a side stand for none."""
    old = sent("old", filled(KIND, "Monday 1", "Tuesday 2", joint=joint), tasks=tasks)
    new = sent("new", filled(CURT, "Friday 5", "Sunday 7", joint=joint), tasks=tasks)

    pairs = compared(old, new)

    (found,) = pairs.sent
    assert (found.old_line, found.new_line, found.varies) == (*lines, False)
    assert pairs.differs == ("system prompt that was sent",)


@pytest.mark.parametrize("new", [("c3", "d4"), ("c3", "c3")])
def test_what_is_another_in_each_trial_is_no_change(new: tuple[str, ...]) -> None:
    """It is told as such, and never named as what is compared, even where the other side has it once."""
    pairs = compared(sent("old", filled(KIND, "a1", "b2")), sent("new", filled(KIND, *new)))

    assert [found.varies for found in pairs.sent] == [True]
    assert pairs.differs == ()


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        (["x"], ["x"], ()),
        (["x"], ["x\n\ny"], ("system prompt that was sent",)),
        (["x"], [""], ("system prompt that was sent",)),
        (["x\ny"], ["x\n\n y"], ()),
        (["monday\nx"], ["tuesday\nx"], ("system prompt that was sent",)),
    ],
)
def test_one_trial_of_each_side_is_enough(old: list[str], new: list[str], differs: tuple[str, ...]) -> None:
    """Then nobody knows what is another each time: the line that is shown tells it."""
    assert compared(sent("old", old), sent("new", new)).differs == differs


def test_lines_with_many_words_of_each_trial_are_compared_at_once() -> None:
    """A table of figures has dozens in one line, and a pattern of as many gaps would be tried for ever."""
    tables = [" ".join(f"{trial}{row} kg rice" for row in range(40)) for trial in "abc"]
    began = time.process_time()

    (difference,) = compared(sent("old", tables[:2]), sent("new", [f"{tables[2]} and beans"] * 2)).sent

    assert time.process_time() - began < 2
    assert not difference.varies


def test_without_transcripts_digests_tell() -> None:
    """A baseline's file holds no texts: what differed within a side before cannot be told from a change."""
    same = compared(sent("old", ["x", "x"], stored=False), sent("new", ["y", "y"], stored=False))
    each = compared(sent("old", ["x", "z"], stored=False), sent("new", ["y", "y"], stored=False))

    once = compared(sent("old", ["x"], stored=False), sent("new", ["y"], stored=False))

    assert [(found.varies, found.old_line) for found in (*same.sent, *once.sent)] == [(False, "")] * 2
    assert [found.varies for found in each.sent] == [True]


def test_runs_of_before_say_nothing() -> None:
    """What their trials sent is not known, which is no difference."""
    assert compared(side("old", {"b/t0": [1.0]}), sent("new", ["x"])).sent == ()


def test_pooled_runs_have_their_texts() -> None:
    """Trials are numbered anew, and their transcripts are found all the same."""
    old = pool_runs([sent("one", ["x"]), sent("two", ["x"])])

    (found,) = compared(old, sent("new", ["y"])).sent

    assert (found.old_line, found.new_line) == ("x", "y")


READING = """
from pathlib import Path

class Reading:
    async def run(self, task_input, ctx):
        system = {"role": "system", "content": Path("system.md").read_text()}
        reply = await ctx.chat.ask([system, {"role": "user", "content": task_input["content"]}])
        return reply.text

def pytest_agenteval_register(registry):
    registry.agent("reading", Reading)
"""


@pytest.mark.usefixtures("quick")
def test_a_file_that_the_agent_reads_by_itself_is_named(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """No digest of files or code tells it: only what was sent does."""
    files = {"conftest.py": READING, "evals/suite.yaml": suite(more="agent: reading\n")}
    write(pytester.path, {**files, "evals/one.json": task("one"), "system.md": "You are a bot.\nBe brief."})
    for name in ("one", "two"):
        run(pytester, f"--agent-results={name}")
    write(pytester.path, {"system.md": "You are a bot.\nBe kind."})
    run(pytester, "--agent-results=three")
    capsys.readouterr()
    runs = [next((pytester.path / name).glob("2*")).as_posix() for name in ("one", "two", "three")]

    main(["compare", *runs[:2]])
    same = " ".join(capsys.readouterr().out.split())
    main(["compare", *runs[1:]])
    changed = " ".join(capsys.readouterr().out.split())

    assert "No difference found in prompts, settings, tools or code." in same
    assert "was sent" not in same
    assert "changed: system prompt that was sent" in changed
    assert '"Be brief." -> "Be kind."' in changed
