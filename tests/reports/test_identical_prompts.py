"""Variants whose prompts change nothing are named, and no others."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.records.transcript import PROMPT_READ, Event, Message, Transcript
from pytest_agenteval.reports.run_view import identical_prompt_warnings
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import RunHeader, new_run
from pytest_agenteval.store.run_reader import load_run

from .runs import CAPABILITY, RULES_MODEL, key, trial


def saying(text: str) -> Transcript:
    """Give what an agent said that asked once."""
    return Transcript((Message("system", text),))


def told_of(root: Path, sent: dict[str, tuple[Transcript, ...]]) -> list[str]:
    """Give what is told of a run in which each variant had these transcripts in tasks a, b and so on."""
    header = RunHeader("2026-11-21T09:30:15", models=(RULES_MODEL,), variants=(*sent,), suites=(CAPABILITY,))
    folder = new_run(root, header)
    JournalWriter(folder, "main").finished(
        [
            trial(task, 1, 1.0, key=key(task, variant=name), transcript=transcript)
            for name, transcripts in sent.items()
            for task, transcript in zip("abc", transcripts, strict=False)
        ]
    )
    return list(identical_prompt_warnings(load_run(folder)))


def test_only_variants_that_sent_the_same_in_every_trial_are_named(tmp_path: Path) -> None:
    """A prompt that matters in one task of many is worth having; a task that one alone tried says nothing."""
    sent = {"": ("plain", "plain"), "same": ("plain", "plain", "more"), "once": ("plain", "other")}

    (line,) = told_of(tmp_path, {name: tuple(map(saying, texts)) for name, texts in sent.items()})

    assert line.startswith("s: rules and rules@same sent the same messages in 2 trials")


def endpoint(digest: str) -> Transcript:
    """Give the transcript of an endpoint that got a prompt in a request, beside the user's message."""
    read = Event(0.1, PROMPT_READ, "system", {"digest": digest, "turn": 1})
    return Transcript((Message("user", "Where is my order?"), Message("assistant", "Here.")), events=(read,))


def test_a_prompt_that_an_endpoint_gets_is_sent(tmp_path: Path) -> None:
    """The transcript does not hold it, but the trial has read it: other texts are other prompts."""
    sent = {"": (endpoint("a1"),), "same": (endpoint("a1"),), "other": (endpoint("b2"),)}

    (line,) = told_of(tmp_path, sent)

    assert line.startswith("s: rules and rules@same sent the same messages in 1 trial")
