"""What a trial leaves behind, as the graders read it: settings of graders, saved cards, changed files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Literal, TypeVar, get_args

from pytest_agenteval import Check, Evidence, FileText, Grade, ToolCall, Tree, TreeDiff
from pytest_agenteval.benchmarks.memex.journal import card_end_state, fact_id, plain_text
from pytest_agenteval.benchmarks.memex.text_search import Day, normalize_mention, parse_days
from pytest_agenteval.graders.grader_settings import cut
from pytest_agenteval.graders.text_reading import UnreadableDocument, yaml_values
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.formatting import few_names
from pytest_agenteval.text.json_values import normal_text, normal_texts

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
        raise ValueError(f"{name}: every text contains a blank text; remove it")
    return wordings


def days(name: str, value: Sequence[str]) -> frozenset[Day]:
    """Read a list of dates, each with its year or not."""
    read = {text: parse_days(normalize_mention(text)) for text in texts(name, value)}
    if wrong := [text for text, readings in read.items() if not readings]:
        raise ValueError(f"{name} must be dates, not {wrong[0]!r}")
    return frozenset(day for readings in read.values() for day in readings)


def entry_text(evidence: Evidence) -> str:
    return str(evidence.task_input.get("content") or "")


# The state at the end of a trial, as the agent reports it or the workspace shows it;
# docs/benchmarks/memex-graders.md explains its keys.
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


def share_grade(grader: str, checks: tuple[Check, ...]) -> Grade:
    """Give the share of checks that passed, counted as Memex counts it: of none, none passed."""
    missed = [check for check in checks if not check.passed]
    why = "; ".join(map(str, missed)) or f"all {len(checks)} checks passed"
    score = (len(checks) - len(missed)) / len(checks) if checks else 0.0
    return Grade(grader, score, why if checks else "nothing to check", checks)


def failed_check(claim: str, expected: str, offenders: Sequence[str]) -> tuple[Check, ...]:
    """Give a failed check where something was found that must not be; else none: it would earn a share."""
    return (Check(claim, False, expected, short_list(offenders, "none")),) if offenders else ()


def short_list(names: Sequence[str], none: str) -> str:
    return few_names(names, 5) or none


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
    if on_disk is None or stated.get(key) is None:
        return ()
    value, there = stated[key], on_disk[key]
    if isinstance(value, str) and isinstance(there, str):
        # By lines, because the copy in a state may end its lines in another way.
        same = value.splitlines() == there.splitlines()
    else:
        same = (list(value) if isinstance(value, tuple) else value) == there
    if same:
        return ()
    claim = f"{key} in the agent's state is what the workspace shows"
    return (Check(claim, False, cut(repr(there), 80), cut(repr(value), 80)),)


def _value_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else repr(value)


# The keys of our own agents' end states, which docs/benchmarks/memex-graders.md explains.
_STATE_KEYS = """
    is_complete missing_requirements card_save_tool_called persisted_fact_id status has_title has_ui_configs
    template_ids card_yaml_blob wrote_para updated_insight skipped_pkm successful_pkm_mutation file_contents
"""
_KEYS = frozenset(_STATE_KEYS.split())


ROOT = "PKM/"


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
    """Give the files of the knowledge base by the paths in it."""
    return {path[len(ROOT) :]: file for path, file in tree.files.items() if path.startswith(ROOT)}


def changed_below(evidence: Evidence) -> TreeDiff:
    """Give what was created, modified and deleted in the knowledge base, by the paths in it."""
    changes = evidence.diff
    created, modified, deleted = (
        tuple(path[len(ROOT) :] for path in paths if path.startswith(ROOT))
        for paths in (changes.created, changes.modified, changes.deleted)
    )
    return TreeDiff(created, modified, deleted)


def enriched_below(evidence: Evidence) -> list[str]:
    """Give the created and modified files of the knowledge base that hold something new, sorted.

    That is a word that a file did not hold as often before: white space, an order of words and what was taken
    out are nothing new; nor is a link. Of a file that is no text any change counts.
    """
    before, after = files_below(evidence.before), files_below(evidence.after)

    def is_richer(path: str) -> bool:
        was, now = before.get(path), after[path]
        if now.why == "link":
            return False
        if now.text is None or (was is not None and was.text is None):
            return now.size > 0
        words, new_words = (was.text or "" if was else "").split(), now.text.split()
        # Without any space, so that a text whose lines were wrapped anew has nothing new.
        return "".join(words) != "".join(new_words) and bool(Counter(new_words) - Counter(words))

    changes = changed_below(evidence)
    return [path for path in sorted((*changes.created, *changes.modified)) if is_richer(path)]


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
    # Letters of other scripts may follow an id at once: Korean and Chinese leave no space there.
    start = r"(?<![0-9A-Za-z_])" if re.match("[0-9A-Za-z_]", mark) else ""
    end = r"(?![0-9A-Za-z_])" if re.match("[0-9A-Za-z_]", mark[-1:]) else ""
    return len(re.findall(start + re.escape(mark) + end, text or ""))


def state_list(state: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Take a list out of the state; one that is not there is empty, anything but a list is unreadable."""
    value = state.get(key)
    if value is not None and not isinstance(value, list | tuple):
        raise UnreadableState(f"{key} in the agent's state", "a list", value)
    return value or ()


INSIGHT = "update_timeline_card_insight"
SAVE = "save_timeline_card"


class Insight(FrozenValue, frozen=True):
    """What an entry's card says that the entry means, and to which other entries it is tied."""

    text: str
    related: tuple[str, ...] = ()


def card_path(evidence: Evidence) -> str | None:
    """Give the path of the card of the task's entry; None where there is no entry, or no file at all."""
    fact = fact_id(evidence.task_input.get("fact_id"))
    has_files = evidence.before.files or evidence.after.files
    return fact.card_file if fact and has_files else None


def _known_card_path(evidence: Evidence) -> str | None:
    """Give the card's path; raises where no card can have the task's id, and there is no state instead."""
    path, fact = card_path(evidence), evidence.task_input.get("fact_id")
    has_files = evidence.before.files or evidence.after.files
    if path is None and fact and has_files and not evidence.state:
        raise UnreadableState("fact_id in the task's input", "an id such as 2026/09/17.md#ts_1", fact)
    return path


def card_state(evidence: Evidence) -> State | None:
    """Give the end state of a card as its file shows it, by the keys of our agent's state.

    None where there is nothing to look at: a workspace without any file, or a task that names no entry.
    """
    path = _known_card_path(evidence)
    if path is None:
        return None
    fact = evidence.task_input["fact_id"]
    before, after = evidence.before.files.get(path), evidence.after.files.get(path)
    # The card came or changed; an unchanged file may still have been saved: then only the calls show it.
    saved = (after is not None and (before is None or before.digest != after.digest)) or any(
        call.tool == SAVE and call.error is None and call.args.get("fact_id") == fact
        for call in evidence.calls
    )
    card = read_card(evidence.after.text(path)) if after is not None else None
    return card_end_state(card, fact, saved, path, evidence.after.text(path) or "")


def read_card(text: Any) -> Mapping[str, Any]:
    """Read a card; one that is no YAML map is empty, as it is to the program that shows it."""
    try:
        card = normal_texts(yaml_values(text if isinstance(text, str) else "")[0])
    except UnreadableDocument:
        return {}
    return card if isinstance(card, dict) else {}


def pkm_state(evidence: Evidence) -> State | None:
    """Give the end state of an entry as knowledge base and card show it, by the keys of our agent's state.

    An entry of which nothing came, no change and no insight, counts as skipped. None as for a card.
    """
    if _known_card_path(evidence) is None:
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


def files_newly_holding(fact: str, evidence: Evidence) -> list[str]:
    """Give the files of the knowledge base that hold the id at the end; none where it only moved."""
    before, after = (
        {path: count_marker(fact, file.text) for path, file in files_below(tree).items()}
        for tree in (evidence.before, evidence.after)
    )
    holding = sorted(path for path, number in after.items() if number)
    # An id that only moved to another file is nothing new: the number of its places has to grow.
    return holding if sum(after.values()) > sum(before.values()) else []


def insight_calls(evidence: Evidence) -> list[ToolCall]:
    return [call for call in evidence.calls if call.tool == INSIGHT and call.error is None]


def insights_given(evidence: Evidence) -> list[str]:
    """Give the ids of the entries that were given an insight with words: by a call, or on their card."""
    calls = (call for call in insight_calls(evidence) if str(call.args.get("insight_text") or "").strip())
    called = [str(call.args.get("fact_id")) for call in calls]
    fact = str(evidence.task_input.get("fact_id", ""))
    return [*called, fact] if fact not in called and _new_insight(evidence) else called


def insight_of(evidence: Evidence) -> Insight | None:
    """Give the insight of the last call that gave one, else the one that newly stands on the entry's card."""
    calls = insight_calls(evidence)
    if not calls:
        return _new_insight(evidence)
    related, text = calls[-1].args.get("related_fact_ids"), calls[-1].args.get("insight_text")
    return _insight(text if isinstance(text, str) else "", related)


def _new_insight(evidence: Evidence) -> Insight | None:
    """Give the insight on the entry's card, None where it has none, or the one it had before."""
    path = card_path(evidence)
    if path is None:
        return None
    insights = []
    for tree in (evidence.before, evidence.after):
        insight = read_card(tree.text(path)).get("insight")
        insight = insight if isinstance(insight, dict) else {"text": insight}
        insights.append(_insight(plain_text(insight.get("text")) or "", insight.get("related_facts")))
    # An insight that stood on the card before is none of this trial.
    return insights[1] if insights[1].text and insights[1] != insights[0] else None


def _insight(text: str, related: Any) -> Insight:
    facts = related if isinstance(related, list | tuple) else ()
    ids = (fact.get("id") if isinstance(fact, dict) else fact for fact in facts)
    return Insight(text.strip(), tuple(id for id in ids if isinstance(id, str) and id))
