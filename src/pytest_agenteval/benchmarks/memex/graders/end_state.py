"""What a trial leaves behind, as the graders read it: settings of graders, saved cards, changed files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache, wraps
from importlib.resources import files
from typing import Any, Literal, TypeVar, get_args

import yaml

from pytest_agenteval import Check, Evidence, FileText, Grade, ToolCall, Tree, TreeDiff
from pytest_agenteval.benchmarks.memex.journal import template_id
from pytest_agenteval.benchmarks.memex.text_search import Day, normalize_mention, parse_days
from pytest_agenteval.graders.grader_settings import cut
from pytest_agenteval.graders.text_reading import UnreadableDocument, yaml_values
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import did_you_mean
from pytest_agenteval.text.json_values import normal_text, normal_texts

_DAY = re.compile(r"(\d{4})/(\d\d)/(\d\d)\.md#")

Mode = Literal["default", "upstream"]
# Texts that must be mentioned, each as a tuple of wordings of which one is enough.
Needles = tuple[tuple[str, ...], ...]


def check_mode(mode: str) -> None:
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be default or upstream, not {mode!r}")


def check_flag(name: str, value: bool, mode: Mode) -> None:
    """Refuse what is no truth value, and a flag that mode upstream does not have."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    if value and mode == "upstream":
        raise ValueError(f"{name}: there is no such thing in mode upstream; take it out")


def texts(name: str, value: Sequence[str]) -> tuple[str, ...]:
    """Take a list of texts as a tuple; anything else is a ValueError that names the setting."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be a list of texts, not {value!r}")
    return tuple(map(normal_text, value))


def needles(name: str, value: Sequence[str | Sequence[str]]) -> Needles:
    """Take a list of texts, or of lists of texts of which one is enough; a blank text is refused."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of texts, not {value!r}")
    wordings = tuple(texts(name, [entry] if isinstance(entry, str) else entry) for entry in value)
    if not all(one_or_more and all(text.strip() for text in one_or_more) for one_or_more in wordings):
        raise ValueError(f"{name}: a blank text is said everywhere; take it out")
    return wordings


def days(name: str, value: Sequence[str]) -> frozenset[Day]:
    """Read a list of dates, each with its year or not."""
    read = {text: parse_days(normalize_mention(text)) for text in texts(name, value)}
    if wrong := [text for text, readings in read.items() if not readings]:
        raise ValueError(f"{name} must be dates, not {wrong[0]!r}")
    return frozenset(day for readings in read.values() for day in readings)


def entry_day(fact_id: Any) -> date | None:
    """Give the day of an entry from its id; None where the id names none."""
    match = _DAY.match(str(fact_id))
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def check_template_ids(ids: Sequence[str]) -> None:
    """Refuse an empty list, and ids that no template has."""
    if not ids:
        raise ValueError("expected_template_ids must name at least one template")
    for id in ids:
        if id not in template_ids():
            hint = did_you_mean(id, template_ids()) or f"known: {', '.join(template_ids())}"
            raise ValueError(f"expected_template_ids: there is no template {id!r}; {hint}")


@cache
def template_ids() -> tuple[str, ...]:
    """Give the ids of all card templates, from the data that the card agent is given."""
    text = files("pytest_agenteval.benchmarks.memex.card_agent").joinpath("templates.yaml").read_text("utf-8")
    templates: dict[str, Any] = yaml.safe_load(text)
    return tuple(templates)


# The state at the end of a trial, as the agent reports it or the workspace shows it; docs/end-state.md
# explains its keys.
State = Mapping[str, Any]

_Grader = TypeVar("_Grader")


class UnreadableState(TypeError):
    """Raised where a value is of another type than it must be; the message names it and what it is."""

    def __init__(self, what: str, expected: str, value: Any) -> None:
        super().__init__(f"{what} must be {expected}, not {value!r}")


def undecided_where_unreadable(
    name: str,
) -> Callable[[Callable[[_Grader, Evidence], Grade]], Callable[[_Grader, Evidence], Grade]]:
    """Make a ``grade`` undecided where it meets something unreadable.

    In ``default`` mode it is given texts in one Unicode form; Memex compares them as they are.
    """

    def decorated(grade: Callable[[_Grader, Evidence], Grade]) -> Callable[[_Grader, Evidence], Grade]:
        @wraps(grade)
        def graded(self: _Grader, evidence: Evidence) -> Grade:
            try:
                is_default = getattr(self, "mode", "default") == "default"
                return grade(self, evidence.in_normal_form() if is_default else evidence)
            except UnreadableState as unreadable:
                return unreadable_grade(name, unreadable)

        return graded

    return decorated


def unreadable_grade(name: str, unreadable: UnreadableState) -> Grade:
    return Grade(name, None, str(unreadable), undecided="unreadable")


MOST_SHOWN = 80


def merge_states(stated: State, on_disk: State | None) -> State:
    """Give the end state: what the agent says, and what the workspace shows wherever it says nothing."""
    return {**(on_disk or {}), **{key: value for key, value in stated.items() if value is not None}}


def upstream_state(evidence: Evidence, state_on_disk: Callable[[Evidence], State | None]) -> State:
    """Give the end state as Memex's harness would: the agent's own; of one without any, the workspace's."""
    stated, on_disk = evidence.state, None
    # An agent of another kind may have a state, but none of these keys.
    if not any(key in stated for key in _KEYS):
        on_disk = state_on_disk(evidence)
    return {**stated, **on_disk} if on_disk else stated


def value_check(claim: str, key: str, expected: Any, stated: State, on_disk: State | None) -> Check:
    """Check that this key has the wanted value; where agent and workspace both have the key, both must.

    Only the very value counts: what is merely true is not ``True``.
    """
    end_value = merge_states(stated, on_disk).get(key)
    value_on_disk = end_value if on_disk is None else on_disk[key]
    # In Python 1 equals True, and only true is a yes.
    passed = all(type(value) is type(expected) and value == expected for value in (end_value, value_on_disk))
    finding = _value_text(end_value)
    if on_disk is not None and end_value != value_on_disk:
        finding = contrast_text(finding, _value_text(value_on_disk))
    return Check(claim, passed, _value_text(expected), finding)


def contrast_text(stated: str, on_disk: str) -> str:
    return f"{stated} in the agent's state, {on_disk} in the workspace"


def disagreement_checks(stated: State, on_disk: State | None, key: str) -> tuple[Check, ...]:
    """Give a failed check where the agent's value of this key is not the workspace's; else none."""
    if on_disk is None or stated.get(key) is None or _same(stated[key], on_disk[key]):
        return ()
    claim = f"{key} in the agent's state is what the workspace shows"
    return (Check(claim, False, cut(repr(on_disk[key]), MOST_SHOWN), cut(repr(stated[key]), MOST_SHOWN)),)


def _value_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else repr(value)


def _same(stated: Any, on_disk: Any) -> bool:
    if isinstance(stated, str) and isinstance(on_disk, str):
        # By lines, because the copy in a state may end its lines in another way.
        return stated.splitlines() == on_disk.splitlines()
    return bool((list(stated) if isinstance(stated, tuple) else stated) == on_disk)


# The keys of our own agents' end states, which docs/end-state.md explains.
_KEYS = frozenset(
    {
        "is_complete",
        "missing_requirements",
        "card_save_tool_called",
        "persisted_fact_id",
        "status",
        "has_title",
        "has_ui_configs",
        "template_ids",
        "card_yaml_blob",
        "wrote_para",
        "updated_insight",
        "skipped_pkm",
        "successful_pkm_mutation",
        "file_contents",
    }
)


ROOT = "PKM/"


def below_root(path: str) -> str | None:
    """Give a path of the workspace as the knowledge base knows it, None when it lies outside."""
    return path.removeprefix(ROOT) if path.startswith(ROOT) else None


def upstream_path(path: str) -> str:
    """Write a path as Memex does: one leading slash goes, the top folder's first letter is upper case."""
    path = path.removeprefix("/")
    return path[:1].upper() + path[1:] if "/" in path[1:] else path


def clean_path(path: str) -> str:
    """Write a path without slashes at its ends, doubled slashes and single dots."""
    return "/".join(step for step in path.split("/") if step not in ("", "."))


def pkm_path(path: str) -> str:
    """Write a path cleaned, its top folder's first letter in upper case."""
    return upstream_path(clean_path(path))


def lies_in(path: str, bucket: str) -> bool:
    """Whether a placed path belongs to a bucket, whole names compared.

    ``Areas/Health/`` is a folder and all below it. ``Inbox``, without a slash at its end, may also be a file:
    ``Inbox``, ``Inbox.md``.
    """
    folder = upstream_path(f"{clean_path(bucket)}/")
    if path.startswith(folder):
        return True
    above, slash, name = path.rpartition("/")
    without_ending = above + slash + (name.rpartition(".")[0] or name)
    return not bucket.endswith("/") and folder in (f"{path}/", f"{without_ending}/")


def files_below(tree: Tree) -> dict[str, FileText]:
    by_inner_path = ((below_root(path), file) for path, file in tree.files.items())
    return {path: file for path, file in by_inner_path if path is not None}


def changed_below(evidence: Evidence) -> TreeDiff:
    """Give what was created, modified and deleted in the knowledge base, by the paths in it."""
    changes = evidence.diff
    created, modified, deleted = (
        tuple(inner for path in paths if (inner := below_root(path)) is not None)
        for paths in (changes.created, changes.modified, changes.deleted)
    )
    return TreeDiff(created, modified, deleted)


def enriched_below(evidence: Evidence) -> list[str]:
    """Give the created and modified files of the knowledge base that hold something new, sorted."""
    before, after = files_below(evidence.before), files_below(evidence.after)
    changes = changed_below(evidence)
    paths = sorted((*changes.created, *changes.modified))
    return [path for path in paths if _holds_something_new(before.get(path), after[path])]


def _holds_something_new(before: FileText | None, after: FileText) -> bool:
    """Whether a changed file holds a word that it did not hold as often before.

    White space, an order of words and what was taken out are nothing new; nor is a link. Of a file that is no
    text any change counts.
    """
    if after.why == "link":
        return False
    if after.text is None or (before is not None and before.text is None):
        return after.size > 0
    was, now = (before.text or "" if before else "").split(), after.text.split()
    # Without any space, so that a text whose lines were wrapped anew has nothing new.
    return "".join(was) != "".join(now) and bool(Counter(now) - Counter(was))


def end_texts(evidence: Evidence) -> Mapping[str, str]:
    """Give the texts of the knowledge base at the end, as Memex's harness does in the state.

    Where the state has none, they are those of the workspace. Raises UnreadableState for what is no map.
    """
    texts = evidence.state.get("file_contents")
    if texts is None:
        return {path: file.text or "" for path, file in files_below(evidence.after).items()}
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise UnreadableState("file_contents in the agent's state", "a map of texts", texts)
    return texts


def count_marker(mark: str, text: str | None) -> int:
    """Count how often a mark stands in a text by itself: ``…#ts_1`` does not stand in ``…#ts_12``."""

    def is_word(letter: str) -> bool:
        # Letters of other scripts may follow an id at once: Korean and Chinese leave no space there.
        return letter == "_" or (letter.isascii() and letter.isalnum())

    start = r"(?<![0-9A-Za-z_])" if is_word(mark[:1]) else ""
    end = r"(?![0-9A-Za-z_])" if is_word(mark[-1:]) else ""
    return len(re.findall(start + re.escape(mark) + end, text or ""))


def state_list(state: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Take a list out of the state; one that is not there is empty, anything but a list is unreadable."""
    value = state.get(key)
    if value is not None and not isinstance(value, list | tuple):
        raise UnreadableState(f"{key} in the agent's state", "a list", value)
    return value or ()


INSIGHT = "update_timeline_card_insight"
SAVE = "save_timeline_card"

_FACT_ID = re.compile(r"(?P<day>.+)\.md#(?P<entry>ts_[0-9]+)")


class Insight(FrozenValue, frozen=True):
    """What an entry's card says that the entry means, and to which other entries it is tied."""

    text: str
    related: tuple[str, ...] = ()


def card_state(evidence: Evidence) -> State | None:
    """Give the end state of a card as its file shows it, by the keys of our agent's state.

    None where there is nothing to look at: a workspace without any file, or a task that names no entry.
    """
    path = card_path(evidence)
    if path is None:
        _check_entry_id(evidence)
        return None
    card, fact = _card(evidence.after, path), evidence.task_input["fact_id"]
    # What a finished card needs, under the names that Memex has for it.
    requirements = {
        "matching_successful_save_timeline_card_tool_call": _was_saved(evidence, path),
        "card_file_exists": path in evidence.after,
        "persisted_fact_id_matches": card.get("fact_id") == fact,
        "status_completed": card.get("status") == "completed",
        "title_present": bool((_text(card.get("title")) or "").strip()),
        "ui_configs_present": bool(_configs(card)),
    }
    missing = [name for name, is_met in requirements.items() if not is_met]
    return {
        "is_complete": not missing,
        "card_save_tool_called": requirements["matching_successful_save_timeline_card_tool_call"],
        "persisted_fact_id": _text(card.get("fact_id")),
        "status": _text(card.get("status")),
        "has_title": requirements["title_present"],
        "has_ui_configs": requirements["ui_configs_present"],
        "missing_requirements": missing,
        "template_ids": [template_id(config) for config in _configs(card)],
        "card_yaml_blob": evidence.after.text(path) or "",
    }


def title_of(blob: Any) -> str:
    """Give the title of a card's text; none where it cannot be read."""
    return _text(_read_card(blob).get("title")) or "" if isinstance(blob, str) else ""


def pkm_state(evidence: Evidence) -> State | None:
    """Give the end state of an entry as knowledge base and card show it, by the keys of our agent's state.

    An entry of which nothing came, no change and no insight, counts as skipped. None as for a card.
    """
    if card_path(evidence) is None:
        _check_entry_id(evidence)
        return None
    fact = str(evidence.task_input["fact_id"])
    changed, filed = bool(changed_below(evidence)), bool(files_newly_holding(fact, evidence))
    has_insight = fact in insights_given(evidence)
    skipped = not changed and not has_insight
    met = {"wrote_para_with_fact_id": filed, "updated_timeline_card_insight": has_insight}
    return {
        "is_complete": skipped or all(met.values()),
        "wrote_para": filed,
        "updated_insight": has_insight,
        "skipped_pkm": skipped,
        "successful_pkm_mutation": changed,
        "missing_requirements": [] if skipped else [name for name, is_met in met.items() if not is_met],
    }


def card_path(evidence: Evidence) -> str | None:
    """Give the path of the card of the task's entry; None where there is no entry, or no file at all."""
    match = _FACT_ID.fullmatch(str(evidence.task_input.get("fact_id", "")))
    if match is None or not (evidence.before.files or evidence.after.files):
        return None
    return f"Cards/{match['day']}_{match['entry']}.yaml"


def _check_entry_id(evidence: Evidence) -> None:
    """Raise where no card can have the task's id, and the agent has no end state to use instead."""
    fact = evidence.task_input.get("fact_id")
    has_files = evidence.before.files or evidence.after.files
    if fact and has_files and not evidence.state and not _FACT_ID.fullmatch(str(fact)):
        raise UnreadableState("fact_id in the task's input", "an id such as 2026/09/17.md#ts_1", fact)


def files_newly_holding(fact: str, evidence: Evidence) -> list[str]:
    """Give the files of the knowledge base that hold the id at the end; none where it only moved."""
    before, after = (
        {path: count_marker(fact, file.text) for path, file in files_below(tree).items()}
        for tree in (evidence.before, evidence.after)
    )
    holding = sorted(path for path, number in after.items() if number)
    # An id that only moved to another file is nothing new: the number of its places has to grow.
    return holding if sum(after.values()) > sum(before.values()) else []


def insights_given(evidence: Evidence) -> list[str]:
    """Give the ids of the entries that were given an insight with words: by a call, or on their card."""
    calls = (call for call in _insight_calls(evidence) if str(call.args.get("insight_text") or "").strip())
    called = [str(call.args.get("fact_id")) for call in calls]
    fact = str(evidence.task_input.get("fact_id", ""))
    return [*called, fact] if fact not in called and _new_insight(evidence) else called


def insight_of(evidence: Evidence) -> Insight | None:
    """Give the insight of the last call that gave one, else the one that newly stands on the entry's card."""
    call = last_insight_call(evidence)
    if call is None:
        return _new_insight(evidence)
    related_ids, text = call.args.get("related_fact_ids"), call.args.get("insight_text")
    related = related_ids if isinstance(related_ids, list | tuple) else ()
    return Insight(text.strip() if isinstance(text, str) else "", _text_ids(related))


def last_insight_call(evidence: Evidence) -> ToolCall | None:
    """Give the last call that gave an insight, None where none did."""
    calls = _insight_calls(evidence)
    return calls[-1] if calls else None


def _insight_calls(evidence: Evidence) -> list[ToolCall]:
    return [call for call in evidence.calls if call.tool == INSIGHT and call.error is None]


def _new_insight(evidence: Evidence) -> Insight | None:
    """Give the insight on the entry's card, None where it has none, or the one it had before."""
    path = card_path(evidence)
    if path is None:
        return None
    before, after = _insight(_card(evidence.before, path)), _insight(_card(evidence.after, path))
    # An insight that stood on the card before is none of this trial.
    return after if after.text and after != before else None


def _insight(card: Mapping[str, Any]) -> Insight:
    insight = card.get("insight")
    insight = insight if isinstance(insight, dict) else {"text": insight}
    related = insight.get("related_facts")
    facts = related if isinstance(related, list) else []
    ids = (fact.get("id") if isinstance(fact, dict) else fact for fact in facts)
    return Insight((_text(insight.get("text")) or "").strip(), _text_ids(ids))


def _text_ids(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(id for id in values if isinstance(id, str) and id)


def _card(tree: Tree, path: str) -> Mapping[str, Any]:
    return _read_card(tree.text(path) or "")


def _read_card(text: str) -> Mapping[str, Any]:
    """Read a card; one that is no YAML map is empty, as it is to the program that shows it."""
    try:
        card = normal_texts(yaml_values(text)[0])
    except UnreadableDocument:
        return {}
    return card if isinstance(card, dict) else {}


def _was_saved(evidence: Evidence, path: str) -> bool:
    """Whether the card came or changed, or was saved as it already was."""
    before, after = evidence.before.files.get(path), evidence.after.files.get(path)
    # An unchanged file may still have been saved: then only the calls show it.
    if after is not None and (before is None or before.digest != after.digest):
        return True
    saves = (call for call in evidence.calls if call.tool == SAVE and call.error is None)
    return any(call.args.get("fact_id") == evidence.task_input["fact_id"] for call in saves)


def _configs(card: Mapping[str, Any]) -> list[Any]:
    configs = card.get("ui_configs")
    return configs if isinstance(configs, list) else []


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)
