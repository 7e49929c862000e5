"""Stored runs as JUnit files, with the cases, words and properties of pytest's own file of each run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.explanations import (
    ending_reason,
    error_text,
    explain_trial,
    reason_below,
)
from pytest_agenteval.reports.exports.export_files import export_file
from pytest_agenteval.reports.junit import (
    Property,
    prefix_endings,
    suite_properties,
    trial_properties,
    verdict_properties,
)
from pytest_agenteval.reports.junit_places import place_properties, set_places
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.task_lines import TaskLines
from pytest_agenteval.reports.view import view_of
from pytest_agenteval.store.journal_entry import JournalEntry, NotRunTrial
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import model_label
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

MOST_MESSAGE = 500
"""Characters of a message; all of it stands in the element's text."""

COMPARISON = "comparison.json"
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_ASCII = re.compile(r"[^\x20-\x7e]")


def write_junit(path: Path, source: ReportSource) -> None:
    """Write a ``testsuite`` for each run, in the family xunit2 with ``file`` and ``line``.

    A miss is skipped, as pytest reports it without ``--agent-strict``, and so is a trial that was held back;
    one that was begun and has no ending, as of a worker that was killed, is an error. Lines are those of the
    task files as they are now, below the working folder or one above it. Raises UsageMistake where the file
    cannot be written.
    """
    root = Element("testsuites", name="pytest tests")
    for run in source.runs:
        root.append(_suite(run, "pytest" if len(source.runs) == 1 else run.header.name))
    with export_file(path) as place:
        ElementTree.ElementTree(root).write(place, encoding="utf-8", xml_declaration=True)


def _suite(run: Run, name: str) -> Element:
    cases = list(_cases(run))
    tags = Counter(child.tag for case in cases for child in case)
    suite = Element(
        "testsuite",
        name=name,
        errors=str(tags["error"]),
        failures=str(tags["failure"]),
        skipped=str(tags["skipped"]),
        tests=str(len(cases)),
        time=f"{sum(float(case.get('time', 0)) for case in cases):.3f}",
        timestamp=run.header.started_at,
    )
    suite.append(_properties([*suite_properties(view_of(run)), *stored_verdict(run.folder)]))
    suite.extend(cases)
    return suite


def _cases(run: Run) -> Iterator[Element]:
    lines = TaskLines(_root_of(run))
    cases = [_case(run, entry, lines) for entry in run.entries]
    prefix_endings(cases)
    set_places(cases)
    ended_trials = {entry.key for entry in run.entries}
    yield from cases
    yield from (_unfinished_case(start.key) for start in run.begun if start.key not in ended_trials)
    yield from (_held_back_case(held_back) for held_back in run.not_run)


def _case(run: Run, entry: JournalEntry, lines: TaskLines) -> Element:
    trial = run.trial_if_readable(entry) or entry
    case = _trial_case(entry.key, entry.file.replace("/", "."), entry.elapsed_seconds)
    transcripts = str(run.folder / entry.location.file)
    places = place_properties(entry.file, lines.line_of(trial))
    case.append(_properties([*trial_properties(trial, transcripts), *places]))
    _add_ending(case, trial)
    return case


def _unfinished_case(key: TrialKey) -> Element:
    """Give the case of a trial of which is known that it was begun, and no more: not even its file."""
    case = _trial_case(key, key.suite, None)
    SubElement(case, "error", message="begun, and never ended")
    return case


def _held_back_case(trial: NotRunTrial) -> Element:
    """Give the case of a trial that was not run, with the reason."""
    case = _trial_case(trial.key, trial.key.suite, 0.0)
    SubElement(case, "skipped", type="pytest.skip", message=_xml(f"NOT RUN: {trial.reason}"))
    return case


def _trial_case(key: TrialKey, classname: str, seconds: float | None) -> Element:
    who = _NO_ASCII.sub(_escape, model_label(key.model, key.variant))
    name = f"{key.task}[{who}-{key.repetition}]"
    case = Element("testcase", classname=_xml(classname), name=_xml(name))
    if seconds is not None:
        case.set("time", f"{seconds:.3f}")
    return case


def _add_ending(case: Element, trial: Trial | JournalEntry) -> None:
    """Add what pytest adds to a case that did not pass."""
    if trial.ending == "missed":
        SubElement(case, "skipped", type="pytest.xfail", message=_xml(reason_below(trial)))
    elif trial.ending == "failed":
        text = "\n".join(explain_trial(trial)) if isinstance(trial, Trial) else ending_reason(trial)
        SubElement(case, "failure", message=_xml(reason_below(trial))).text = _xml(text)
    elif trial.ending == "errored":
        text = "\n".join(error_text(trial).splitlines())
        message = f'failed on setup with "{text.partition(chr(10))[0]}"'
        SubElement(case, "error", message=_xml(message[:MOST_MESSAGE])).text = _xml(text)


def _properties(pairs: list[Property]) -> Element:
    properties = Element("properties")
    for name, value in pairs:
        SubElement(properties, "property", name=_xml(name), value=_xml(value))
    return properties


def stored_verdict(folder: Path) -> Iterator[Property]:
    """Give what the run was found to be beside its baseline, if it had one."""
    try:
        comparison: Any = json.loads((folder / COMPARISON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(comparison, Mapping):
        headline, old = (str(comparison.get(name, "")) for name in ("headline", "old"))
        yield from verdict_properties(headline, old, map(str, comparison.get("lines") or ()))


def _root_of(run: Run) -> Path:
    """Give the folder that task files are named from: this one, or the nearest above it that has one."""
    here = Path.cwd()
    file = next((entry.file for entry in run.entries if entry.file), "")
    return next((folder for folder in (here, *here.parents) if file and (folder / file).is_file()), here)


def _xml(text: str) -> str:
    """Give a text without secrets, and without what XML cannot hold, in pytest's spelling of it."""
    return _NO_XML.sub(lambda match: f"#x{ord(match[0]):02X}", KNOWN_SECRETS.text(text))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
