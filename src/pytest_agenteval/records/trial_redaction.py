"""A trial without secrets: what leaves the engine, so that nothing behind it has to think of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import astuple, replace

from pytest_agenteval.records.evidence import FileText, Outcome, Tree
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.tool_spec import tools_text
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.redaction import KNOWN_SECRETS, Secrets, _written_forms
from pytest_agenteval.text.secret_forms import SHORTEST_NUMBER

# What authors and users named, and what was computed: neither is a place for what an agent says.
NAMES = ("key", "kind", "bucket", "tags", "file", "limit", "cause", "workspace", "label")
FIGURES = (
    "attempt", "ending", "score", "digests", "started_at", "seconds", "uncharged_seconds", "tool_tape",
    "chat_tape", "acted",
)  # fmt: skip


def redact_trial(trial: Trial, secrets: Secrets = KNOWN_SECRETS) -> Trial:
    """Give the trial with a mark in place of each secret; most have none, and are given as they are.

    The grades stand: they were given to what really was there.
    """
    before, after = trial.outcome.before, trial.outcome.after
    tools = trial.transcript.tools
    spoken = [getattr(trial, name) for name in SPOKEN if name != "transcript" or not tools]
    if tools:  # the same in most trials: their text is remembered to be clean
        spoken.append(replace(trial.transcript, tools=()))
    # One long text: every start of a secret is looked for once, not once in each of hundreds of texts.
    texts = "\n".join(_texts([*spoken, trial.outcome.answer]))
    if not (
        secrets.dirty(texts)
        or (tools and not secrets.all_clean({tools_text(tools): tools_text(tools)}))
        or _is_dirty(before, secrets)
        or (after is not before and _is_dirty(after, secrets))
    ):
        return trial
    rest = {name: _clean(getattr(trial, name), secrets) for name in SPOKEN}
    answer = _clean(trial.outcome.answer, secrets)
    outcome = Outcome(answer, _clean_tree(before, secrets), _clean_tree(after, secrets))
    return replace(trial, outcome=outcome, **rest)


SPOKEN = tuple(name for name in Trial.__struct_fields__ if name not in (*NAMES, *FIGURES, "outcome"))
"""The fields that may hold what came from an agent, a model or a tool."""


def _texts(parts: list[Any]) -> list[str]:
    """Give every text within these values, numbers that are long enough for secrets among them.

    The list grows while it is walked: no part of a trial is deep, and each has some hundred.
    """
    texts: list[str] = []
    least = 10 ** (SHORTEST_NUMBER - 1)
    for part in parts:
        kind: Any = type(part)
        if kind is str:
            texts.append(part)
        elif part is None or kind is float or kind is bool or (kind is int and part <= least):
            continue
        elif issubclass(kind, Record):  # somebody's own is a value that JSON does not know
            parts += astuple(part)
        elif isinstance(part, _LISTS):
            parts += part
        elif isinstance(part, _MAPS):
            parts += part
            parts += part.values()
        elif isinstance(part, str):
            texts.append(str.__str__(part))
        elif kind is int:
            texts.append(str(part))
        else:
            parts += _written_forms(part)
    return texts


# Named once: a union would be made anew at each value. Maps of ours are dicts, which is a quick check.
_LISTS = (tuple, list, set, frozenset)
_MAPS = (dict, Mapping)


def _clean(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.text(value)
    if isinstance(value, tuple):
        return tuple(_clean(part, secrets) for part in value)
    kind: Any = type(value)
    if not issubclass(kind, Record):  # somebody's own is a value that JSON does not know
        return secrets.value(value)
    return replace(value, **{name: _clean(getattr(value, name), secrets) for name in kind.__struct_fields__})


def _is_dirty(tree: Tree, secrets: Secrets) -> bool:
    if not tree.files:
        return False
    texts = {file.digest: file.text for file in tree.files.values() if file.text}
    return secrets.dirty("\n".join(tree.files)) or not secrets.all_clean(texts)


def _clean_tree(tree: Tree, secrets: Secrets) -> Tree:
    def clean_file(file: FileText) -> FileText:
        text = secrets.text(file.text) if file.text and secrets.dirty(file.text) else file.text
        return file if text == file.text else replace(file, text=text)

    return replace(tree, files={secrets.text(path): clean_file(file) for path, file in tree.files.items()})
