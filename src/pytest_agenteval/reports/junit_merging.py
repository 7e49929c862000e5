"""JUnit files of shards as one file: each case once, counts of the whole, figures of the merged run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from pytest_agenteval.reports.exports.export_files import export_file
from pytest_agenteval.reports.exports.junit_file import stored_verdict
from pytest_agenteval.reports.junit import MOST_PATH, Property, bounded, suite_properties
from pytest_agenteval.reports.view import view_of
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

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
    root.append(_suite(suites, run))
    with export_file(path) as place:
        ElementTree.ElementTree(root).write(place, encoding="utf-8", xml_declaration=True)


def _suite(suites: Sequence[Element], run: Run) -> Element:
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
    return suite


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
