"""The reference page of files is made from their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_agenteval.cli.schema import schema_named

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
HEAD = """# Files

You find here every key of the files that you write. `agenteval schema task` prints the schema of a task file
for your editor; `suite`, `tools` and `calibration` in place of `task` print the others. Keys marked * are
required. In values marked † `{{ column }}` stands for the row's value.

<!-- Made by `python -m tests.cli.test_files_page`. -->
"""
KINDS = {
    "task": ("Task", "Task files", "A file holds one task or a list of tasks."),
    "suite": ("Suite", "suite.yaml", "It holds for the task files in its folder and below."),
    "tools": ("ToolFile", "Tool files", "`tools` of a suite names them. Their tools are HTTP requests."),
    "calibration": (
        "Calibration",
        "Calibration files",
        "`NAME.calibration.yaml` compares judges with labels.",
    ),
}
"""The object that a file is, a heading, and a sentence."""

FROM_MEMEX = {
    "agent_name",
    "requireReferenceSolution",
    "taskPassThreshold",
    "sampleTranscript",
    "sample_transcript",
}
"""Second spellings that the page leaves out."""

SHORT = (
    (r"^a text: |(?<=^)a text that is not blank: ", ""),
    (r"; \{\{ column \}\} stands for a row's value", " †"),
    (r"a whole number, (\d) or more", r"\1 or more"),
    (r"a number of (seconds|US dollars)(?: above 0|, 0 or more)", r"\1"),
    (r"a number from 0 to 1", "0 to 1"),
    (r"a number above 0", "above 0"),
    (r"^(?:a|an|the) (?=map|list|path|name|text)", ""),
    (r"^true or false: (?:whether )?", "whether "),
    (r"^(?:map|list|map of [^:]*`[^:]*|map of [^:]* and [^:]*|1 or more|0 or more|seconds): ", ""),
    (r"^list of (?=faults: |tool)", ""),
    (r"^map of (?=limits: )", ""),
)
"""How the page shortens what error messages say in full."""


def files_page() -> str:
    """Give docs/reference/files.md, in Markdown."""
    parts, shown = [HEAD], dict[str, dict[str, str]]()
    for kind, (top, heading, sentence) in KINDS.items():
        objects = schema_named(kind)["$defs"]
        parts.append(f"## {heading}\n\n{sentence}\n\n|key|value|\n|---|---|")
        for name in sorted(objects, key=lambda name: (name != top, _uses(objects, name))):
            if name not in shown:
                rows = _meanings(objects[name])
                place = "".join(f"{key}." for key in _uses(objects, name)[:1] if name != top)
                parts += _rows(place, rows, shown)
                shown[name] = rows
        parts.append("")
    return "\n".join(parts).rstrip()


def _rows(place: str, rows: dict[str, str], shown: dict[str, dict[str, str]]) -> Iterator[str]:
    """Give an object's rows; keys that mean the same as in an earlier object share one."""
    same = [
        key
        for key, text in rows.items()
        if any(text.removesuffix(" †") == other.get(key, other.get(f"{key}*")) for other in shown.values())
    ]
    others: dict[str, list[str]] = {}
    for key, text in rows.items():
        if len(same) < 3 or key not in same:
            others.setdefault(text, []).append(f"`{place}{key.rstrip('*')}`{'*' * key.endswith('*')}")
    yield from (f"|{', '.join(keys)}|{text}|" for text, keys in others.items())
    if len(same) == len(rows):
        yield f"|`{place}...`|every key of a task file|"
    elif len(same) >= 3:
        yield f"|{', '.join(f'`{place}{key}`'.replace('*', '') for key in same)}|as above|"


def _uses(objects: dict[str, Any], name: str) -> list[str]:
    """Give the keys whose values are this object."""
    return sorted(
        key
        for key in {key for each in objects.values() for key in each.get("properties", {})} - FROM_MEMEX
        if any(
            f'"#/$defs/{name}"' in json.dumps(each.get("properties", {}).get(key))
            for each in objects.values()
        )
    )


def _meanings(described: dict[str, Any]) -> dict[str, str]:
    """Give what each key may be, and its default; a required key ends in a star."""
    texts = {}
    for key, value in described.get("properties", {}).items():
        default, text = value.get("default"), value.get("description", "").replace("|", r"\|")
        for pattern, words in SHORT:
            text = re.sub(pattern, words, text)
        if isinstance(default, (bool, int, float, str)) and default not in ("", False, " ", 0):
            text += f" (default {'true' if default is True else default})"
        if key not in FROM_MEMEX:
            texts[f"{key}*" if key in described.get("required", ()) else key] = text
    return texts


def test_the_page_of_files_is_current() -> None:
    """`python -m tests.cli.test_files_page` makes it again."""
    assert PAGE.read_text(encoding="utf-8") == files_page() + "\n"


def test_each_key_is_in_the_page() -> None:
    """Those of objects inside of others, too."""
    named = set(re.findall(r"`(?:\w+\.)?(\w+)`", PAGE.read_text(encoding="utf-8")))
    for kind in KINDS:
        for described in schema_named(kind)["$defs"].values():
            assert set(described.get("properties", ())) <= named | FROM_MEMEX


if __name__ == "__main__":
    print(files_page())
