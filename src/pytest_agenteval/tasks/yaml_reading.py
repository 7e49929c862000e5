"""YAML read as if it were JSON with comments: no guessed dates, octals or yes and no.

This is the only module of the room that imports yaml.
"""

from __future__ import annotations

import re
from math import isinf
from typing import TYPE_CHECKING, Any

import yaml

from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.text.json_values import JSON

if TYPE_CHECKING or yaml.__with_libyaml__:
    from yaml._yaml import CParser as _Parser
else:
    from yaml.composer import Composer
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class _Parser(Reader, Scanner, Parser, Composer):
        """PyYAML's own parser, for where libyaml is missing."""

        def __init__(self, stream: str) -> None:
            for part in (Reader, Scanner, Parser, Composer):
                part.__init__(self, *([stream] if part is Reader else []))


PLAIN, QUOTED = "plain", "quoted"
COMMA = "in braces a comma ends an unquoted text: put the whole text in quotes"
COLUMN = "keys of one map, and dashes of one list, begin in the same column"
_CONFLICT = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_WAYS_OUT = {
    "but found another document": "--- begins a second document; several tasks of one file are a list",
    "mapping values are not allowed": f"put a text with ': ' in it in quotes; {COLUMN}",
    "did not find expected ','": "a bracket or brace above is not closed",
    "did not find expected": COLUMN,
    "found unexpected end of stream": "the quote that begins here is not closed",
    "found undefined alias": "put a text that begins with * in quotes",
    "found character that cannot start any token": "put a text that begins with @, ` or % in quotes",
}
_END_IN_QUOTES = "found unexpected end of stream"
_DEEPEST = 200
# The error message of newer versions of libyaml, which stop before our own limit is reached.
_TOO_DEEP = "exceeded maximum nesting depth"
_VALUES_PER_CHARACTER = 20  # a text without aliases has fewer than one
# YAML 1.1 has more: yes, no, on, off, 017, 1_000 and 12:30 would be no texts. Here they are, as in JSON.
_WORDS: dict[str, JSON] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


class _Reader(_Parser):
    """Composes nodes; the tag of a scalar only says whether it was written without quotes."""

    _depth = 0

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:
        """Distinguish scalars without quotes, which may be numbers, from quoted ones, which are text."""
        return PLAIN if kind is yaml.ScalarNode and implicit[0] else QUOTED

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Called before each node: libyaml itself descends until the process crashes."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Called after each node."""
        self._depth -= 1


def read_yaml(text: str, file: str) -> JSON:
    """Give a YAML document's value, or raise every problem that reading it shows."""
    try:
        root = _compose(text)
        values = _Values(file, text)
        value = None if root is None else values.value(root, ())
    except yaml.YAMLError as error:
        if _TOO_DEEP in str(error):
            raise RecursionError from None
        raise ProblemsFound([_syntax(error, text, file)]) from None
    if values.problems:
        raise ProblemsFound(sorted(values.problems, key=lambda problem: problem.line or 0))
    return value


class YamlLineIndex:
    """The lines of a YAML document that has been read without a problem."""

    def __init__(self, text: str) -> None:
        self._root = _compose(text)

    def line_of(self, path: KeyPath) -> int:
        """Give the line on which the key stands, or that of its nearest parent that exists."""
        node = self._root
        line = _line(node) if node else 1
        for step in path:
            if isinstance(node, yaml.MappingNode):
                pair = next((pair for pair in node.value if pair[0].value == step), None)
                if pair is None:
                    break
                key, node = pair
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                key = node = node.value[step]
            else:
                break
            line = _line(key)
        return line


def top_level_keys(text: str) -> list[list[str]] | None:
    """Give the keys of each document's map, or of each map of its list; None for what is no YAML.

    Tags, merge keys, repeated keys and several documents, which ``read_yaml`` refuses, do no harm here.
    """
    try:
        reader = _Reader(text)
        roots = list(iter(lambda: reader.get_node() if reader.check_node() else None, None))
    except yaml.YAMLError:
        return None
    nodes = [node for top in roots for node in (top.value if isinstance(top, yaml.SequenceNode) else [top])]
    maps = (node for node in nodes if isinstance(node, yaml.MappingNode))
    return [[str(key.value) for key, _ in node.value] for node in maps]


def _compose(text: str) -> yaml.Node | None:
    root: yaml.Node | None = _Reader(text).get_single_node()
    return root


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Values:
    """Turns nodes into values, and collects what has no JSON counterpart."""

    def __init__(self, file: str, text: str) -> None:
        self.problems: list[Problem] = []
        self._file, self._text = file, text
        self._open: set[int] = set()
        self._left = _VALUES_PER_CHARACTER * (len(text) + 1)

    def value(self, node: yaml.Node, path: KeyPath) -> JSON:
        """Give the value of a node; where there is none, note a problem and give None."""
        self._left -= 1
        if self._left < 0:
            # Ten lines of aliases of aliases can stand for a billion values: nothing more is read.
            self._refuse(node, path, "aliases that expand to less", "aliases that expand to too much")
            raise ProblemsFound(self.problems)
        if node.tag not in (PLAIN, QUOTED):
            return self._refuse(node, path, "no tags", f"the tag {_tag(node.tag)}")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path) if node.tag == PLAIN else str(node.value)
        if id(node) in self._open:
            return self._refuse(node, path, "a value that ends", "an alias of what it stands in")
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            value: JSON = self._map(node, path)
        else:
            value = [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        self._open.discard(id(node))
        return value

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> JSON:
        text: str = node.value
        if text in _WORDS:
            return _WORDS[text]
        # Most texts begin otherwise, and need not be matched with a pattern.
        if text[0] not in "-0123456789":
            return text
        match = _NUMBER.fullmatch(text)
        if match is None:
            return text
        try:
            number = float(text) if match[1] or match[2] else int(text)
        except ValueError:
            # Python refuses to read longer whole numbers.
            return self._refuse(node, path, "a number of at most 4300 digits", f"{len(text)} digits")
        return self._refuse(node, path, "a number that JSON knows", text) if isinf(number) else number

    def _map(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, JSON]:
        mapping: dict[str, JSON] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in mapping:
                again = f"{key!r} a second time (first on line {lines[key]})"
                self._refuse(key_node, (*path, key), "each key only once", again)
            if node.flow_style and value_node.value == "" and value_node.tag == PLAIN:
                after, begins = key_node.end_mark.index, value_node.start_mark.index
                # A key without a colon is the rest of a text behind a comma. An alias begins elsewhere.
                if begins >= after and ":" not in self._text[after:begins]:
                    self._refuse(key_node, (*path, key), "a key and its value", f"{key!r} alone", COMMA)
            lines[key] = _line(key_node)
            mapping[key] = self.value(value_node, (*path, key))
        return mapping

    def _key(self, node: yaml.Node, path: KeyPath) -> str | None:
        if not isinstance(node, yaml.ScalarNode) or node.tag not in (PLAIN, QUOTED):
            self._refuse(node, path, "keys that are text", "a list, a map or a tag as a key")
            return None
        if node.value == "<<" and node.tag == PLAIN:
            self._refuse(node, path, "keys written out", "the merge key <<")
            return None
        return str(node.value)

    def _refuse(self, node: yaml.Node, path: KeyPath, expected: str, found: str, hint: str = "") -> JSON:
        self.problems.append(Problem(self._file, _line(node), path, expected, found, hint))
        return None


def _tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _syntax(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = None if mark is None else int(mark.line) + 1
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if isinstance(error, yaml.reader.ReaderError):
        # libyaml counts bytes, and the reader of PyYAML counts characters.
        before = text.encode()[: error.position] if yaml.__with_libyaml__ else text[: error.position].encode()
        line, reason = before.count(b"\n") + 1, f"{reason} ({error.character!r})"
    # Conflicts and tabs are looked for first: the parser's own message says little about them.
    conflict = _CONFLICT.search(text)
    if conflict:
        at = text.count("\n", 0, conflict.start()) + 1
        return Problem(file, at, (), "a YAML document", "a merge conflict", "keep one of its two sides")
    # The first line that a tab indents, down to the line behind the one where reading failed.
    for number, row in enumerate(text.splitlines()[: (line or len(text)) + 1], start=1):
        if "\t" in row[: len(row) - len(row.lstrip())]:
            return Problem(
                file, number, (), "spaces where a line begins", "a tab", "YAML indents with spaces"
            )
    first = reason.splitlines()[0]
    hint = next((way for begins, way in _WAYS_OUT.items() if first.startswith(begins)), "")
    # The end of the file says nothing about where a quote begins.
    begun = getattr(error, "context_mark", None)
    if first == _END_IN_QUOTES and begun is not None:
        line = int(begun.line) + 1
    return Problem(file, line, (), "a YAML document", first, hint)
