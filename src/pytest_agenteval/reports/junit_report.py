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
    note_properties,
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
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import model_label
from pytest_agenteval.text.redaction import KNOWN_SECRETS

MOST_MESSAGE = 500
"""Characters of a message; all of it stands in the element's text."""

COMPARISON = "comparison.json"
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_ASCII = re.compile(r"[^\x20-\x7e]")


def write_junit(path: Path, source: ReportSource) -> None:
    """Write a ``testsuite`` for each run, in the family xunit2 with ``file`` and ``line``.

    A miss is skipped, as pytest reports it without ``--agent-strict``, and so is a trial that was held back.
    A trial that started and has no ending, because its worker was killed, is an error. Lines are those of
    the task files as they are now, below the working folder or one above it. Raises UsageMistake where the
    file cannot be written.
    """
    suites = []
    for run in source.runs:
        # pytest's own file names its suite "pytest"; several runs in one file need names of their own.
        cases, name = list(_cases(run)), "pytest" if len(source.runs) == 1 else run.header.name
        seconds = sum(float(case.get("time", 0)) for case in cases)
        suites.append(_suite(cases, _run_properties(run), name, seconds, run.header.started_at))
    _write(path, suites)


def _write(path: Path, suites: Iterable[Element]) -> None:
    root = Element("testsuites", name="pytest tests")
    root.extend(suites)
    with export_file(path) as place:
        ElementTree.ElementTree(root).write(place, encoding="utf-8", xml_declaration=True)


def _suite(
    cases: Sequence[Element], properties: Iterable[Property], name: str, seconds: float, timestamp: str
) -> Element:
    tags = Counter(child.tag for case in cases for child in case)
    suite = Element("testsuite", name=name)
    for tag, attribute in (("error", "errors"), ("failure", "failures"), ("skipped", "skipped")):
        suite.set(attribute, str(tags[tag]))
    suite.set("tests", str(len(cases)))
    suite.set("time", f"{seconds:.3f}")
    suite.set("timestamp", timestamp)
    suite.append(_properties(properties))
    suite.extend(cases)
    return suite


def _run_properties(run: Run) -> list[Property]:
    return [*suite_properties(view_of(run)), *_stored_verdict(run.folder)]


def _cases(run: Run) -> Iterator[Element]:
    # Task files are named from pytest's rootdir: this folder, or the nearest above it that has one of them.
    here, file = Path.cwd(), next((entry.file for entry in run.entries if entry.file), "")
    root = next((folder for folder in (here, *here.parents) if file and (folder / file).is_file()), here)
    lines = TaskFileLines(root)
    cases = [_case(run, entry, lines) for entry in run.entries]
    prefix_endings(cases)
    set_places(cases)
    ended_trials = {entry.key for entry in run.entries}
    yield from cases
    # Without these, a run whose worker was killed would leave a file in which all passed.
    for start in run.begun:
        # Nothing else is known of such a trial, not even its file.
        if start.key not in ended_trials:
            case = _trial_case(start.key, start.key.suite, None)
            SubElement(case, "error", message="started, but never ended")
            yield case
    for trial in run.not_run:
        case = _trial_case(trial.key, trial.key.suite, 0.0)
        SubElement(case, "skipped", type="pytest.skip", message=_xml(f"NOT RUN: {trial.reason}"))
        yield case


def _case(run: Run, entry: JournalEntry, lines: TaskFileLines) -> Element:
    # A trial whose transcript is lost still has a case, with what the journal knows.
    trial = run.trial_if_readable(entry) or entry
    case = _trial_case(entry.key, entry.file.replace("/", "."), entry.elapsed_seconds)
    transcripts = str(run.folder / entry.location.file)
    places = place_properties(entry.file, lines.line_of(trial))
    notes = note_properties(entry.note)
    case.append(_properties([*trial_properties(trial, transcripts), *notes, *places]))
    if trial.ending == "missed":
        SubElement(case, "skipped", type="pytest.xfail", message=_xml(reason_below(trial)))
    elif trial.ending == "failed":
        text = "\n".join(explain_trial(trial)) if isinstance(trial, Trial) else ending_reason(trial)
        SubElement(case, "failure", message=_xml(reason_below(trial))).text = _xml(text)
    elif trial.ending == "errored":
        transcript = trial.transcript if isinstance(trial, Trial) else None
        text = "\n".join(error_text(trial, transcript).splitlines())
        # The words that pytest's own junitxml puts before an error of a setup, where our agents run.
        message = f'failed on setup with "{text.partition(chr(10))[0]}"'
        SubElement(case, "error", message=_xml(message[:MOST_MESSAGE])).text = _xml(text)
    return case


def _trial_case(key: TrialKey, classname: str, seconds: float | None) -> Element:
    # pytest escapes what is not ASCII in the brackets of an item's name, and the cases have pytest's names.
    label = model_label(key.model, key.variant)
    who = _NO_ASCII.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), label)
    name = f"{key.task}[{who}-{key.repetition}]"
    case = Element("testcase", classname=_xml(classname), name=_xml(name))
    if seconds is not None:
        case.set("time", f"{seconds:.3f}")
    return case


def _properties(pairs: Iterable[Property]) -> Element:
    properties = Element("properties")
    for name, value in pairs:
        SubElement(properties, "property", name=_xml(name), value=_xml(value))
    return properties


def _stored_verdict(folder: Path) -> Iterator[Property]:
    # A run without a baseline has no such file, and a damaged one costs the verdict but not the report.
    try:
        comparison: Any = json.loads((folder / COMPARISON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(comparison, Mapping):
        headline, old = (str(comparison.get(name, "")) for name in ("headline", "old"))
        yield from verdict_properties(headline, old, map(str, comparison.get("lines") or ()))


def _xml(text: str) -> str:
    """Give a text without secrets; characters that XML cannot hold are escaped as pytest does: ``#x1B``."""
    return _NO_XML.sub(lambda match: f"#x{ord(match[0]):02X}", KNOWN_SECRETS.text(text))


OURS = "agenteval."
WORST_FIRST = ("error", "failure", "skipped")
NAME_PARTS = ("suite", "task", "model", "variant", "repetition")


def read_junit(path: Path) -> list[Element]:
    """Give the ``testsuite`` elements of a file; raises UsageMistake where it is no JUnit file."""
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be read ({refused.strerror or refused})") from None
    except ElementTree.ParseError as invalid:
        raise UsageMistake(f"{path}: expected a JUnit file; it is no XML ({invalid})") from None
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    if root.tag not in ("testsuite", "testsuites"):
        raise UsageMistake(f"{path}: expected a JUnit file; found <{root.tag}>")
    return suites


def write_merged_junit(path: Path, files: Iterable[Sequence[Element]], run: Run) -> None:
    """Write the files of a run's parts as one file of pytest's form.

    A case that several files have, such as a test file that no part could collect, is in it once, with its
    worst ending. Raises UsageMistake where the file cannot be written.
    """
    suites = [suite for of_file in files for suite in of_file]
    worst: dict[tuple[str | None, str | None], Element] = {}
    for case in (case for suite in suites for case in suite.iter("testcase")):
        case_name = case.get("classname"), case.get("name")
        if case_name not in worst or _rank(case) < _rank(worst[case_name]):
            worst[case_name] = case
    cases = list(worst.values())
    keys = ((entry.key, entry.location.file) for entry in run.entries)
    places: Mapping[tuple[str, ...], str] = {
        (key.suite, key.task, key.model, key.variant, str(key.repetition)): file for key, file in keys
    }
    # Each part named the transcript in its own folder; in the joined run it is in another one.
    for written in cases:
        facts = {str(each.get("name")): each for each in written.iter("property")}
        parts = (facts.get(OURS + part) for part in NAME_PARTS)
        file = places.get(tuple("" if part is None else part.get("value", "") for part in parts))
        if file is not None and f"{OURS}transcript" in facts:
            facts[f"{OURS}transcript"].set("value", bounded(str(run.folder / file), MOST_PATH))
    # Properties that the user's own tests put onto the files stay; ours are those of the whole run.
    others: dict[str, str] = {}
    for each in (each for suite in suites for each in suite.findall("properties/property")):
        others.setdefault(each.get("name", ""), each.get("value", ""))
    properties = [(name, value) for name, value in others.items() if not name.startswith(OURS)]
    name = next((suite.get("name", "") for suite in suites), "pytest")
    seconds = sum(float(suite.get("time") or 0) for suite in suites)
    timestamp = min((stamp for suite in suites if (stamp := suite.get("timestamp"))), default="")
    _write(path, [_suite(cases, [*_run_properties(run), *properties], name, seconds, timestamp)])


def _rank(case: Element) -> int:
    tags = {child.tag for child in case}
    return next((at for at, tag in enumerate(WORST_FIRST) if tag in tags), len(WORST_FIRST))
