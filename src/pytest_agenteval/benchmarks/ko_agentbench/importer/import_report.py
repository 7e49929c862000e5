"""The page that says what an import found, changed and left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_agenteval.benchmarks.ko_agentbench.importer.cache import Cache, CachedCall, Collision
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Finding,
    changes,
    oddities,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.suite import ImportedTask
from pytest_agenteval.text.json_values import compact_json

REPORT_FILE = "ANOMALIES.md"
NOTHING = "Nothing."
NAME_DIGITS = 12


def render_report(
    findings: Sequence[Finding], cache: Cache, tasks: Sequence[ImportedTask], left_out: Mapping[str, int]
) -> str:
    """Write the page."""
    return "\n".join(
        [
            "# What the import of Ko-AgentBench came upon",
            "",
            "Nothing of the data was repaired: what looks odd is listed, and what had to be written",
            "otherwise than it stands in the clone is listed as a change.",
            "",
            *section("Changes", _group_changes(changes(findings)), NOTHING),
            *section("Oddities of the data, kept as they are", oddities(findings), NOTHING),
            *section("Keys of the data that no grader reads, left out", _key_counts(left_out), NOTHING),
            *_cassette_section(cache),
            *_answered_section(tasks, cache),
            *_collision_section(cache),
        ]
    )


def golden_hits(tasks: Iterable[ImportedTask], cache: Cache) -> dict[str, tuple[int, int, int]]:
    """Give by level how many golden calls there are, are answered, and are answered by a stale file only."""
    calls: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    stale: Counter[str] = Counter()
    for level, tool, args in _golden_calls(tasks):
        calls[level] += 1
        entry = cache.find(tool, args)
        answered[level] += entry is not None
        stale[level] += entry is not None and entry.stale
    return {level: (calls[level], answered[level], stale[level]) for level in calls}


def _golden_calls(tasks: Iterable[ImportedTask]) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    for task in tasks:
        for action in task.content["graders"][0]["config"].get("golden_action") or ():
            if isinstance(action, Mapping) and action.get("tool"):
                yield task.level, action["tool"], action.get("args") or {}


def _group_changes(findings: Sequence[Finding]) -> list[str]:
    """Write changes that were made to several tasks once."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for change in findings:
        by_text[change.text].append(change.task)
    return [f"- {', '.join(tasks)}: {text}" for text, tasks in by_text.items()]


def _key_counts(left_out: Mapping[str, int]) -> list[str]:
    return [f"- `{key}` ({number} tasks)" for key, number in sorted(left_out.items())]


def _cassette_section(cache: Cache) -> list[str]:
    if not cache.read:
        return ["## Cassettes", "", "The clone has no cache: there are no cassettes.", ""]
    retired = ", ".join(f"{tool} {number}" for tool, number in sorted(cache.retired.items())) or "none"
    rows = [
        ("files read", cache.read),
        ("calls kept", cache.entry_count),
        ("of these stale: no key of today's leads to them, no other file has their arguments", cache.stale),
        ("answered by several files: one that can be reached wins, else the newest", len(cache.collisions)),
        ("files that lost to another one", cache.superseded),
        (f"files of tools that are no more, left out ({retired})", cache.retired.total()),
        ("files without data", len(cache.nulls)),
    ]
    return ["## Cassettes", "", *table(("what", "number"), rows), ""]


def _collision_section(cache: Cache) -> list[str]:
    """List the calls that several files answer, with the first digits of the files' names."""
    rows = [
        f"- {_call(collision.preferred)}: {_file(collision.preferred)} kept, {_lost_files(collision)}"
        for collision in cache.collisions
    ]
    return section("Calls that several files answer", sorted(rows), NOTHING) if cache.read else []


def _lost_files(collision: Collision) -> str:
    """Name the files that were left out, those with the same answer apart."""
    alike = [_file(call) for call in collision.lost if call.data == collision.preferred.data]
    other = [_file(call) for call in collision.lost if call.data != collision.preferred.data]
    by_answer = ((alike, "the same answer"), (other, "another answer"))
    return ", ".join(f"left out {', '.join(files)} ({what})" for files, what in by_answer if files)


def _call(call: CachedCall) -> str:
    return f"`{call.tool} {compact_json(call.args)}`"


def _file(call: CachedCall) -> str:
    return call.file[:NAME_DIGITS]


def _answered_section(tasks: Sequence[ImportedTask], cache: Cache) -> list[str]:
    if not cache.read:
        return []
    rows = [(level, *numbers) for level, numbers in golden_hits(tasks, cache).items()]
    head = ("level", "golden calls", "answered", "of these only by a stale file")
    return ["## Golden calls that the cassettes answer", "", *table(head, rows), ""]


def section(title: str, rows: Sequence[object], otherwise: str) -> list[str]:
    """Write a section of a Markdown page; one line says so where there is nothing to list."""
    return [f"## {title}", "", *(map(str, rows) if rows else [otherwise]), ""]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Write a Markdown table."""
    lines = [_row(head), _row(["---"] * len(head))]
    return [*lines, *(_row([str(cell) for cell in row]) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
