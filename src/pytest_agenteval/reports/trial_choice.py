"""Which trials of a run are matches: by name, by a part of it, by pytest's item id, or by how they ended."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, get_args

from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.trial import Ending
from pytest_agenteval.reports.run_view import worst_first
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import MOST_NAME, ending_word, one_line, pluralize

WORST = "worst"
WORDS = (WORST, *get_args(Ending), "limited")
"""Words that stand for a name: ``worst`` is one trial, the others are all that ended so."""

MOST_LISTED = 20
MOST_NEAR = 5
NEAR = 0.4
MOST_TEXT = 200
PROGRAM = re.compile(r"^(?:(?:PASSED|FAILED|ERROR|XFAIL|MISSED)\s+)+")
"""What pytest prints before an item's id in its short summary."""


class TrialQuery(NamedTuple):
    """A name, or a ``word`` of ``WORDS``; ``run`` is empty where none was named with it."""

    name: str = ""
    word: str = ""
    run: str = ""


def parse_query(text: str) -> TrialQuery:
    """Read what the user typed: ``latest:worst``, ``worst``, a trial's name, or an item's id."""
    text = text.strip()
    run, colon, word = text.rpartition(":")
    # Behind two colons stands an item's name, as in `task.json::worst`.
    if word in WORDS and not run.endswith(":"):
        return TrialQuery(word=word, run=run) if run or not colon else TrialQuery(name=text)
    return TrialQuery(name=text)


def choose_trials(
    entries: Sequence[JournalEntry], query: TrialQuery, *, new: bool = False
) -> list[JournalEntry]:
    """Give the trial that a query names, or with a word for an ending all trials that ended so, worst first.

    With ``new`` a word stands only for trials that nobody has looked at, ``worst`` for one that did not pass.
    Raises UsageMistake, with the candidates or the nearest names, where several trials or none match a name.
    """
    if not entries:
        raise UsageMistake("no trial of this run has ended")
    if new:
        return _new_trials(entries, query)
    if query.word:
        ordered = _worst_of_all_first(entries)
        if query.word == WORST:
            return ordered[:1]
        found = [each for each in ordered if query.word in (each.ending, "limited" if each.limit else "")]
        if not found:
            counts = Counter(entry.ending for entry in entries)
            there = ", ".join(f"{counts[each]:,} {each}" for each in get_args(Ending) if counts[each])
            raise UsageMistake(f"no trial of {pluralize(len(entries), 'trial')} is {query.word}: {there}")
        return found
    matches = best_matches(entries, query.name)
    if len(matches) == 1:
        return matches
    if matches:
        raise UsageMistake("\n".join(_several(query.name, matches)))
    raise UsageMistake(_unknown(entries, query.name))


def _new_trials(entries: Sequence[JournalEntry], query: TrialQuery) -> list[JournalEntry]:
    if not query.word:
        raise UsageMistake(f"--new chooses among many trials: expected {', '.join(WORDS)}; found a name")
    is_worst = query.word == WORST
    meant = worst_first(entries) if is_worst else choose_trials(entries, query)
    left = [entry for entry in meant if not entry.note.looked_at]
    if not left:
        what = "did not pass" if is_worst else f"{'is' if len(meant) == 1 else 'are'} {query.word}"
        raise UsageMistake(f"{pluralize(len(meant), 'trial')} {what}, and all of them have been looked at")
    return left[:1] if is_worst else left


def best_matches(entries: Iterable[JournalEntry], name: str) -> list[JournalEntry]:
    """Give the trials that a name fits best: a whole name before a part of one, exact case before any.

    A name is ``suite/task[model@variant-1]``, the same without the suite or the brackets, a part of it, the
    task's file, or pytest's item id with or without its file.
    """
    entries, name = list(entries), PROGRAM.sub("", name.strip())
    if "::" in name:
        # A task's file may hold a `::` in its path; its id, which pytest puts behind the last, holds none.
        file, _, item = name.rpartition("::")
        could_be = task_filter(item)
        of_item = [
            entry
            for entry in entries
            if could_be(entry.key.task) and item in (*_item_names(entry), entry.key.task)
        ]
        # The file may be left out, or typed as seen from another folder than pytest's rootdir.
        in_file = [entry for entry in of_item if not file or _is_file(entry.file, file)]
        return in_file if in_file or not file else _of_python_item(entries, name)
    if matches := whole_name_matches(entries, name):
        return matches
    folded = name.casefold()
    # From exact to loose: a name that is also a part of others must find its own trial.
    looser: tuple[Callable[[JournalEntry], bool], ...] = (
        lambda entry: _is_file(entry.file, name),
        lambda entry: name != "" and name in trial_name(entry.key),
        lambda entry: folded != "" and folded in trial_name(entry.key).casefold(),
    )
    return next((found for fits in looser if (found := list(filter(fits, entries)))), [])


def whole_name_matches(entries: Iterable[JournalEntry], name: str) -> list[JournalEntry]:
    """Give the trials of this whole name, with or without the suite or the brackets."""
    name = PROGRAM.sub("", name.strip())
    could_be, whole = task_filter(name), {name, one_line(name, MOST_TEXT)}
    alike = [entry for entry in entries if could_be(entry.key.task)]
    return [entry for entry in alike if trial_name(entry.key) in whole] or [
        entry for entry in alike if not whole.isdisjoint((*_item_names(entry), _task(entry), entry.key.task))
    ]


def task_filter(name: str) -> Callable[[str], bool]:
    """Give a quick test that refuses tasks which no trial of this whole name can be of.

    To write out the names of 100,000 trials, and to compare those, takes most of a second.
    """
    typed = f"{name.strip()}\n{one_line(name, MOST_TEXT)}"
    # A longer name may be cut, and of others only those that are written as they are stand in theirs.
    if len(name) > MOST_NAME - 2:
        return lambda task: True
    return lambda task: task in typed or not (task.isascii() and task.isprintable() and "  " not in task)


def counterpart(entries: Sequence[JournalEntry], entry: JournalEntry) -> JournalEntry:
    """Give the same trial of another run, with its model and prompt, else with the only ones of that run.

    Raises UsageMistake where there is none, or where several fit.
    """
    key, of_task = entry.key, [other for other in entries if _task(other) == _task(entry)]
    # From the same model and prompt to any: a comparison of models has no trial with the same one.
    readings: tuple[Callable[[JournalEntry], bool], ...] = (
        lambda other: other.key[3:] == key[3:],
        lambda other: (other.key.variant, other.key.repetition) == (key.variant, key.repetition),
        lambda other: other.key.repetition == key.repetition,
        lambda other: True,
    )
    for fits in readings:
        matches = [other for other in of_task if fits(other)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageMistake("\n".join(_several(trial_name(key), matches)))
    raise UsageMistake(_unknown(entries, trial_name(key)))


def _of_python_item(entries: Sequence[JournalEntry], name: str) -> list[JournalEntry]:
    """Give the trials of an item in a Python file.

    Between file and name, its id holds the variable of a suite, or the classes of a test.
    """
    file, _, below = name.partition("::")
    names = {below.replace("::", "."), below.rpartition("::")[2]}
    of_file = (entry for entry in entries if _is_file(entry.file, file))
    return [each for each in of_file if not names.isdisjoint((*_item_names(each), each.key.task))]


def _item_names(entry: JournalEntry) -> tuple[str, str]:
    """Give the item's name below its file, as we write it and as pytest does."""
    name = trial_name(entry.key).removeprefix(f"{one_line(entry.key.suite, MOST_TEXT)}/")
    # pytest writes characters in brackets that are not ASCII as escapes.
    case = name.removeprefix(entry.key.task)
    return name, entry.key.task + case.encode("unicode_escape").decode("ascii")


def _task(entry: JournalEntry) -> str:
    return f"{entry.key.suite}/{entry.key.task}"


def _is_file(file: str, typed: str) -> bool:
    """Whether a typed path means a file; ``file`` is from pytest's rootdir, ``typed`` from any folder."""
    # Users paste Windows paths too, and type from below the rootdir or from above it.
    path = posixpath.normpath(typed.replace("\\", "/"))
    while path.startswith("../"):
        path = path.removeprefix("../")
    return bool(file) and (path == file or path.endswith(f"/{file}") or file.endswith(f"/{path}"))


def _worst_of_all_first(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Give trials worst first as every report does, then those that passed, by score."""
    passed = [entry for entry in entries if entry.ending == "passed"]
    return [*worst_first(entries), *sorted(passed, key=lambda entry: (entry.score or 0.0, entry.key))]


def _several(name: str, matches: Sequence[JournalEntry]) -> Iterator[str]:
    """List the trials that a name could mean, worst first, each in a form that can be typed."""
    yield f"{pluralize(len(matches), 'trial')} could be {name!r}; name one:"
    ordered = _worst_of_all_first(matches)
    words = [ending_word(entry.ending, entry.score) for entry in ordered[:MOST_LISTED]]
    wide = max(map(len, words))
    for word, entry in zip(words, ordered, strict=False):
        yield f"  {word:<{wide}}  {trial_name(entry.key)}"
    if len(ordered) > MOST_LISTED:
        yield f"  and {len(ordered) - MOST_LISTED} more"


def _unknown(entries: Sequence[JournalEntry], name: str) -> str:
    near = _nearest(entries, name)
    ways = ["the nearest:", *near] if near else ["agenteval show worst shows the worst"]
    return f"there is no trial {name!r}; " + "\n  ".join(ways)


def _nearest(entries: Sequence[JournalEntry], name: str) -> list[str]:
    """Give the names most like this one: of trials where brackets were typed, else of tasks."""
    tasks = [key.task for key in dict.fromkeys(entry.key._replace(repetition=1) for entry in entries)]
    bare = re.sub(r"\[[^\[\]]*\]$", "", name.rpartition("::")[2])
    near = difflib.get_close_matches(bare.rpartition("/")[2], list(dict.fromkeys(tasks)), MOST_NEAR, NEAR)
    if bare == name or not near:
        return [one_line(task, MOST_TEXT) for task in near]
    trials = [trial_name(entry.key) for entry in entries if entry.key.task in near]
    return difflib.get_close_matches(name, trials, MOST_NEAR, 0.0)
