"""Takes the secrets out of a trial before it leaves the engine, so that nothing else has to think of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import astuple, replace

from pytest_agenteval.records.evidence import FileText, Outcome, Tree
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.tool_spec import tools_text
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.redaction import KNOWN_SECRETS, Secrets, written_form
from pytest_agenteval.text.secret_forms import SHORTEST_NUMBER

# Names that authors and users gave, and computed figures: neither holds texts of an agent.
NAMES = ("key", "kind", "bucket", "tags", "file", "limit", "cause", "workspace", "label")
FIGURES = (
    "attempt", "ending", "score", "digests", "started_at", "seconds", "uncharged_seconds",
    "wall_seconds", "tool_tape", "chat_tape", "acted",
)  # fmt: skip


def redact_trial(trial: Trial, secrets: Secrets = KNOWN_SECRETS) -> Trial:
    """Give the trial with a mark in place of each secret; most have none, and are returned as they are.

    Scores stay as they are: the graders saw the trial with its secrets.
    """
    before, after = trial.outcome.before, trial.outcome.after
    tools = trial.transcript.tools
    spoken = [getattr(trial, name) for name in SPOKEN if name != "transcript" or not tools]
    # Most trials have the same tools: it is remembered that their text is clean.
    if tools:
        spoken.append(replace(trial.transcript, tools=()))
    # One long text: the start of each secret is looked for once, and not once in each of hundreds of texts.
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


# Fields that may hold text from an agent, a model or a tool.
SPOKEN = tuple(name for name in Trial.__struct_fields__ if name not in (*NAMES, *FIGURES, "outcome"))


def _texts(parts: list[Any]) -> list[str]:
    """Give every text within these values, and numbers that are long enough to be secrets.

    The list of parts grows while it is walked: no part of a trial is deep, and each has about a hundred.
    """
    texts: list[str] = []
    least = 10 ** (SHORTEST_NUMBER - 1)
    for part in parts:
        kind: Any = type(part)
        if kind is str:
            texts.append(part)
        elif part is None or kind is float or kind is bool or (kind is int and part <= least):
            continue
        # Only our records can be taken apart by their fields. Other objects are searched in written form.
        elif issubclass(kind, Record):
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
        elif (form := written_form(part)) is not part:
            parts.append(form)
    return texts


# Made once: a union would be made anew for each value. Maps of ours are dicts, which are found quickly.
_LISTS = (tuple, list, set, frozenset)
_MAPS = (dict, Mapping)


def _clean(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.text(value)
    if isinstance(value, tuple):
        return tuple(_clean(part, secrets) for part in value)
    kind: Any = type(value)
    # An object of somebody else's class is a value that JSON does not know.
    if not issubclass(kind, Record):
        return secrets.value(value)
    return replace(value, **{name: _clean(getattr(value, name), secrets) for name in kind.__struct_fields__})


def _is_dirty(tree: Tree, secrets: Secrets) -> bool:
    if not tree.files:
        return False
    # By digest, for most files are also those of other trials, and known to be clean.
    texts = {file.digest: file.text for file in tree.files.values() if file.text}
    return secrets.dirty("\n".join(tree.files)) or not secrets.all_clean(texts)


def _clean_tree(tree: Tree, secrets: Secrets) -> Tree:
    def clean_file(file: FileText) -> FileText:
        text = secrets.text(file.text) if file.text and secrets.dirty(file.text) else file.text
        return file if text == file.text else replace(file, text=text)

    return replace(tree, files={secrets.text(path): clean_file(file) for path, file in tree.files.items()})
