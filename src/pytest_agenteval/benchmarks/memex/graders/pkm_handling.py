"""When each file that was there before a trial was first read, and when first changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_agenteval.benchmarks.memex.graders.pkm_paths import cleaned
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.workspace.globs import select


@dataclass(slots=True)
class Handling:
    """Follows the calls of a trial and keeps, for each file that was there before, the turns that matter.

    ``read`` and ``changed`` give the turn of a file's first read and first change, by the path that the file
    had before the trial. A file made in the trial is in neither.
    """

    read: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    _were: dict[str, str | None] = field(default_factory=dict)
    """Each present path, and the path before the trial of the file that lies there now."""

    @classmethod
    def of(cls, given: Iterable[ToolCall], calls: Iterable[ToolCall], before: Iterable[str]) -> Handling:
        """Follow the calls that a task gave, of which only reads count, and then those that were made."""
        handling = cls(_were={path: path for path in before})
        for call in given:
            handling._look(call)
        for call in calls:
            if call.error is None:
                handling._look(call)
                handling._change(call)
        return handling

    def _look(self, call: ToolCall) -> None:
        if call.tool == "Read":
            self._note(self.read, [cleaned(path_of(call) or "")], call.turn)
        elif call.tool == "BatchRead":
            for pattern in _patterns(call):
                found = [pattern] if pattern in self._were else select(pattern, self._were)
                self._note(self.read, found, call.turn)

    def _change(self, call: ToolCall) -> None:
        match call.tool:
            case "Write" | "Edit":
                self._write(path_of(call), call.turn)
            case "Move":
                self._move(_text(call, "source_path"), _text(call, "destination_path"), call.turn)
            case "Remove":
                self._remove(_text(call, "path"), call.turn)

    def _write(self, named: str | None, turn: int) -> None:
        path = cleaned(named or "")
        if path:
            self._note(self.changed, [path], turn)
            self._were.setdefault(path, None)

    def _remove(self, named: str | None, turn: int) -> None:
        gone = [] if named is None else self._below(cleaned(named))
        self._note(self.changed, gone, turn)
        for path in gone:
            del self._were[path]

    def _move(self, named: str | None, to: str | None, turn: int) -> None:
        source, destination = cleaned(named or ""), cleaned(to or "")
        if not source or to is None:
            return
        moved = self._below(source)
        if destination not in self._were and self._below(destination):
            destination = f"{destination}/{source.rpartition('/')[2]}".lstrip("/")
        taken = {destination + path[len(source) :]: self._were.pop(path) for path in moved}
        self._note(self.changed, taken, turn)
        self._were.update(taken)

    def _note(self, turns: dict[str, int], paths: Iterable[str], turn: int) -> None:
        for path in paths:
            was = self._were.get(path)
            if was is not None:
                turns.setdefault(was, turn)

    def _below(self, path: str) -> list[str]:
        """Give the file of this path, or all files below it; the root is an empty path."""
        if path in self._were:
            return [path]
        return [each for each in self._were if not path or each.startswith(f"{path}/")]


def path_of(call: ToolCall) -> str | None:
    """Give the path of the file that a call names, None where it names none."""
    return _text(call, "path" if call.args.get("file_path") is None else "file_path")


def _text(call: ToolCall, name: str) -> str | None:
    value = call.args.get(name)
    return value if isinstance(value, str) else None


def _patterns(call: ToolCall) -> list[str]:
    given = call.args.get("file_patterns")
    found = given if isinstance(given, list | tuple) else [given]
    return [cleaned(pattern) for pattern in found if isinstance(pattern, str)]
