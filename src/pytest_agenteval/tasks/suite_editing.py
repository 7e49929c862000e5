"""Edits the promoted buckets and tasks of suite files, and leaves everything else as its author wrote it."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

from pytest_agenteval.tasks.documents import is_json, parse_document, short_path
from pytest_agenteval.tasks.source_spans import (
    TextSpan,
    insert_at_end,
    insert_before,
    newline_of,
    remove_part,
)
from pytest_agenteval.tasks.suite_spec import Regression
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from pytest_agenteval.text.json_values import JSON

_KEY = "regression"
_LISTS = ("buckets", "tasks")
# Names with other signs are quoted: colons, commas and brackets, for example, have a meaning in YAML.
_PERHAPS_PLAIN = re.compile(r"\w(?:[\w ./-]*\w)?")


def with_regression(path: Path, data: bytes, regression: Regression) -> bytes:
    """Give a suite file's bytes with these buckets and tasks promoted.

    The file has been read without a problem. Names that are promoted already stay where they are, new ones
    come behind them. Raises UsageMistake for a file that cannot be edited in place, for example because of
    aliases.
    """
    # A byte order mark is no part of the text, and is put back in the end.
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = data[len(bom) :].decode()
    before = parse_document(path, data).value
    if all(_names(before, key) == list(getattr(regression, key)) for key in _LISTS):
        return data
    suite = _SuiteText(path, text)
    # Where a text of several lines ends the file, the line end behind it may be a part of its value.
    for at_top, with_end in ((False, False), (True, False), (False, True)):
        edited = suite.edited(before, regression, at_top=at_top)
        edited += newline_of(edited) if with_end else ""
        # What was edited is read again: an alias, for one, may have changed the meaning of another part.
        if _says(path, edited, before, regression):
            return bom + edited.encode()
    wanted = {key: list(names) for key in _LISTS if (names := getattr(regression, key))}
    raise UsageMistake(
        f"{short_path(path)}: cannot be edited in place; write `{_KEY}: {json.dumps(wanted)}` by hand"
    )


def _says(path: Path, text: str, before: JSON, regression: Regression) -> bool:
    """Whether an edited text promotes these names, and has everything else as before."""
    try:
        after = parse_document(path, text.encode()).value
    except ProblemsFound:
        return False
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return False
    for key in _LISTS:
        old, wanted = _names(before, key), getattr(regression, key)
        in_order = [name for name in old if name in wanted]
        in_order += dict.fromkeys(name for name in wanted if name not in old)
        if _names(after, key) != in_order:
            return False
    return {**after, _KEY: None} == {**before, _KEY: None}


def _names(suite: JSON, key: str) -> list[str]:
    promoted = suite.get(_KEY) if isinstance(suite, dict) else None
    names = promoted.get(key) if isinstance(promoted, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


class _SuiteText:
    """The text of a suite file, and how names are written in it."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text, self._is_json = path, text, is_json(path)

    def edited(self, before: JSON, regression: Regression, *, at_top: bool = False) -> str:
        """Give the text with these names promoted; a new key comes at the end, or ``at_top``."""
        if not any(getattr(regression, key) for key in _LISTS):
            root = self._span(self._text)
            return self._text if root.part(_KEY) is None else _without_part(self._text, root, _KEY)
        text = self._text
        # New names are added first: else an emptied list would be taken out, and come back elsewhere.
        for key in _LISTS:
            for name in dict.fromkeys(getattr(regression, key)):
                if name not in _names(before, key):
                    text = self._with(text, key, name, at_top=at_top)
        for key in _LISTS:
            # Names that are not wanted are taken out, the last first: the places of the others stay as they
            # are. A list of which no name is left goes too, for ``buckets:`` alone would be a problem.
            for index, name in reversed([*enumerate(_names(before, key))]):
                promoted = self._span(text).part(_KEY)
                names = promoted.part(key) if promoted else None
                if promoted and names and name not in getattr(regression, key):
                    last = len(names.parts) == 1
                    text = _without_part(text, promoted, key) if last else remove_part(text, names, index)
        return text

    def _span(self, text: str) -> TextSpan:
        if self._is_json:
            from pytest_agenteval.tasks.source_spans import json_span

            return json_span(text)
        from pytest_agenteval.tasks.yaml_reading import yaml_span

        return yaml_span(text)

    def _with(self, text: str, key: str, name: str, *, at_top: bool) -> str:
        root = self._span(text)
        promoted = root.part(_KEY)
        names = promoted.part(key) if promoted else None
        if names:
            written = self._like(text, names, name)
            return insert_at_end(text, names, written, [written])
        written = self._scalar_text(name)
        inner, lines = f"{self._key(key)}: [{written}]", [f"{key}:", f"  - {written}"]
        if promoted:
            return insert_at_end(text, promoted, inner, lines)
        lines = [f"{_KEY}:", *(f"  {line}" for line in lines)]
        if at_top and not root.is_flow:
            return insert_before(text, root, lines)
        return insert_at_end(text, root, f"{self._key(_KEY)}: {{{inner}}}", lines)

    def _key(self, key: str) -> str:
        return f'"{key}"' if self._is_json else key

    def _like(self, text: str, names: TextSpan, name: str) -> str:
        """Write a name in the same quotes as the last one of its list."""
        quote = text[names.parts[-1].start] if names.parts else ""
        # Within single quotes YAML writes a quote twice, and has no escapes for other characters.
        if quote == "'" and name.isprintable():
            return "'{}'".format(name.replace("'", "''"))
        return self._quoted(name) if quote == '"' else self._scalar_text(name)

    def _scalar_text(self, name: str) -> str:
        return name if not self._is_json and _is_plain(name) else self._quoted(name)

    def _quoted(self, name: str) -> str:
        if self._is_json:
            return json.dumps(name, ensure_ascii=not name.isprintable())
        # YAML has no surrogate pairs: one longer escape stands for such a character.
        text = json.dumps(name, ensure_ascii=False)
        return "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in text)


def _without_part(text: str, container: TextSpan, key: str) -> str:
    index = next(index for index, part in enumerate(container.parts) if part.name == key)
    return remove_part(text, container, index)


def _is_plain(name: str) -> bool:
    """Whether YAML reads a name without quotes as this text, and not as a number, a word or a map."""
    if not _PERHAPS_PLAIN.fullmatch(name):
        return False
    from pytest_agenteval.tasks.yaml_reading import read_yaml

    try:
        return bool(read_yaml(f"[{name}]", "") == [name])
    except ProblemsFound:
        return False
