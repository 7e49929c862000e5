"""Stored runs as JUnit files, with the cases, texts and properties of pytest's own, and shards merged."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from pytest_agenteval.records.explanation import ending_reason, error_text, explain_trial, reason_below
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.exports.row_files import export_file
from pytest_agenteval.reports.junit_properties import (
    MOST_PATH,
    Property,
    bounded,
    place_properties,
    prefix_endings,
    set_places,
    suite_properties,
    trial_properties,
    verdict_properties,
)
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.store.journal_entry import JournalEntry, NotRunTrial
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
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
    lines = TaskFileLines(_root_of(run))
    cases = [_case(run, entry, lines) for entry in run.entries]
    prefix_endings(cases)
    set_places(cases)
    ended_trials = {entry.key for entry in run.entries}
    yield from cases
    yield from (_unfinished_case(start.key) for start in run.begun if start.key not in ended_trials)
    yield from (_held_back_case(held_back) for held_back in run.not_run)


def _case(run: Run, entry: JournalEntry, lines: TaskFileLines) -> Element:
    trial = run.trial_if_readable(entry) or entry
    case = _trial_case(entry.key, entry.file.replace("/", "."), entry.elapsed_seconds)
    transcripts = str(run.folder / entry.location.file)
    places = place_properties(entry.file, lines.line_of(trial))
    case.append(_properties([*trial_properties(trial, transcripts), *places]))
    if trial.ending == "missed":
        SubElement(case, "skipped", type="pytest.xfail", message=_xml(reason_below(trial)))
    elif trial.ending == "failed":
        text = "\n".join(explain_trial(trial)) if isinstance(trial, Trial) else ending_reason(trial)
        SubElement(case, "failure", message=_xml(reason_below(trial))).text = _xml(text)
    elif trial.ending == "errored":
        transcript = trial.transcript if isinstance(trial, Trial) else None
        text = "\n".join(error_text(trial, transcript).splitlines())
        message = f'failed on setup with "{text.partition(chr(10))[0]}"'
        SubElement(case, "error", message=_xml(message[:MOST_MESSAGE])).text = _xml(text)
    return case


def _unfinished_case(key: TrialKey) -> Element:
    """Give the case of a trial of which is known that it was begun, and no more: not even its file."""
    case = _trial_case(key, key.suite, None)
    SubElement(case, "error", message="begun, and never ended")
    return case


def _held_back_case(trial: NotRunTrial) -> Element:
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


OURS = "agenteval."
WORST_FIRST = ("error", "failure", "skipped")
TrialName = tuple[str, ...]
NAME_PARTS = ("suite", "task", "model", "variant", "repetition")


def read_junit(path: Path) -> list[Element]:
    """Give the ``testsuite`` elements of a file; raises UsageMistake where it is none of JUnit's."""
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be read ({refused.strerror or refused})") from None
    except ElementTree.ParseError as odd:
        raise UsageMistake(f"{path}: expected a JUnit file; it is no XML ({odd})") from None
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    if root.tag not in ("testsuite", "testsuites"):
        raise UsageMistake(f"{path}: expected a JUnit file; found <{root.tag}>")
    return suites


def write_merged_junit(path: Path, files: Iterable[Sequence[Element]], run: Run) -> None:
    """Write what the files of a run's parts hold as one file of pytest's form.

    A case that several files have, as a test file that no part could collect, is there once, with its worst
    ending. Raises UsageMistake where the file cannot be written.
    """
    suites = [suite for of_file in files for suite in of_file]
    root = Element("testsuites", name="pytest tests")
    cases = list(_each_once(case for suite in suites for case in suite.iter("testcase")))
    _name_transcripts(cases, run)
    tags = Counter(child.tag for case in cases for child in case)
    suite = Element(
        "testsuite",
        name=next((suite.get("name", "") for suite in suites), "pytest"),
        errors=str(tags["error"]),
        failures=str(tags["failure"]),
        skipped=str(tags["skipped"]),
        tests=str(len(cases)),
        time=f"{sum(float(suite.get('time') or 0) for suite in suites):.3f}",
        timestamp=min((stamp for suite in suites if (stamp := suite.get("timestamp"))), default=""),
    )
    figures = [*suite_properties(view_of(run)), *stored_verdict(run.folder)]
    properties = SubElement(suite, "properties")
    for name, value in [*figures, *_of_others(suites)]:
        SubElement(properties, "property", name=name, value=KNOWN_SECRETS.text(value))
    suite.extend(cases)
    root.append(suite)
    with export_file(path) as place:
        ElementTree.ElementTree(root).write(place, encoding="utf-8", xml_declaration=True)


def _of_others(suites: Iterable[Element]) -> Iterator[Property]:
    """Give the properties that tests of one's own put onto the files; ours are those of the whole run."""
    found: dict[str, str] = {}
    for suite in suites:
        for each in suite.findall("properties/property"):
            found.setdefault(each.get("name", ""), each.get("value", ""))
    return ((name, value) for name, value in found.items() if not name.startswith(OURS))


def _each_once(cases: Iterable[Element]) -> Iterable[Element]:
    kept: dict[tuple[str | None, str | None], Element] = {}
    for case in cases:
        name = case.get("classname"), case.get("name")
        if name not in kept or _rank(case) < _rank(kept[name]):
            kept[name] = case
    return kept.values()


def _rank(case: Element) -> int:
    tags = {child.tag for child in case}
    return next((at for at, tag in enumerate(WORST_FIRST) if tag in tags), len(WORST_FIRST))


def _name_transcripts(cases: Iterable[Element], run: Run) -> None:
    """Let each trial's case name the file that its transcript is in now."""
    places: Mapping[TrialName, str] = {
        (key.suite, key.task, key.model, key.variant, str(key.repetition)): entry.location.file
        for entry in run.entries
        for key in [entry.key]
    }
    for case in cases:
        properties = {str(each.get("name")): each for each in case.iter("property")}
        file = places.get(_trial_name(properties))
        if file is not None and f"{OURS}transcript" in properties:
            properties[f"{OURS}transcript"].set("value", bounded(str(run.folder / file), MOST_PATH))


def _trial_name(properties: Mapping[str, Element]) -> TrialName:
    values = (properties.get(OURS + part) for part in NAME_PARTS)
    return tuple("" if value is None else value.get("value", "") for value in values)
