"""What a workspace says for itself, whoever worked in it: the entry's card, and where it was filed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval import Evidence, ToolCall, Tree
from pytest_agenteval.benchmarks.memex.graders.end_state import State, UnreadableState
from pytest_agenteval.benchmarks.memex.graders.pkm_changes import changed_below, count_marker, files_below
from pytest_agenteval.graders.text_reading import UnreadableDocument, yaml_values
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import normal_texts

INSIGHT = "update_timeline_card_insight"
SAVE = "save_timeline_card"
NO_TEMPLATE_ID = "classic_card"
"""What a stored template without an id counts as."""

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
    blob, card = evidence.after.text(path), _card(evidence.after, path)
    missing = [name for name, is_met in _card_requirements(evidence, path, card).items() if not is_met]
    return {
        "is_complete": not missing,
        "card_save_tool_called": "matching_successful_save_timeline_card_tool_call" not in missing,
        "persisted_fact_id": _text(card.get("fact_id")),
        "status": _text(card.get("status")),
        "has_title": "title_present" not in missing,
        "has_ui_configs": "ui_configs_present" not in missing,
        "missing_requirements": missing,
        "template_ids": [_template_id(config) for config in _configs(card)],
        "card_yaml_blob": blob or "",
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
    """Raise where the task's id is none that a card can have, and the agent tells nothing to go by."""
    fact = evidence.task_input.get("fact_id")
    has_files = evidence.before.files or evidence.after.files
    if fact and has_files and not evidence.state and not _FACT_ID.fullmatch(str(fact)):
        raise UnreadableState("fact_id in the task's input", "an id such as 2026/09/17.md#ts_1", fact)


def files_newly_holding(fact: str, evidence: Evidence) -> list[str]:
    """Give the files of the knowledge base that hold the id at the end; none where it only moved."""
    before, after = _marker_counts(fact, evidence.before), _marker_counts(fact, evidence.after)
    return sorted(after) if sum(after.values()) > sum(before.values()) else []


def insights_given(evidence: Evidence) -> list[str]:
    """Give the ids of the entries that were given an insight with words: by a call, or on their card."""
    calls = _insight_calls(evidence)
    called = [
        str(call.args.get("fact_id")) for call in calls if str(call.args.get("insight_text") or "").strip()
    ]
    fact = str(evidence.task_input.get("fact_id", ""))
    return [*called, fact] if fact not in called and _new_insight(evidence) else called


def insight_of(evidence: Evidence) -> Insight | None:
    """Give the insight of the last call that gave one, else the one that newly stands on the entry's card."""
    call = last_insight_call(evidence)
    if call is None:
        return _new_insight(evidence)
    related_ids, text = call.args.get("related_fact_ids"), call.args.get("insight_text")
    related = related_ids if isinstance(related_ids, list | tuple) else ()
    return Insight(text.strip() if isinstance(text, str) else "", tuple(_text_ids(related)))


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
    return after if after.text and after != before else None


def _insight(card: Mapping[str, Any]) -> Insight:
    insight = card.get("insight")
    insight = insight if isinstance(insight, dict) else {"text": insight}
    related = insight.get("related_facts")
    facts = related if isinstance(related, list) else []
    ids = (fact.get("id") if isinstance(fact, dict) else fact for fact in facts)
    return Insight((_text(insight.get("text")) or "").strip(), tuple(_text_ids(ids)))


def _text_ids(values: Any) -> Iterator[str]:
    return (id for id in values if isinstance(id, str) and id)


def _card(tree: Tree, path: str) -> Mapping[str, Any]:
    return _read_card(tree.text(path) or "")


def _read_card(text: str) -> Mapping[str, Any]:
    """Read a card; one that is no YAML map is empty, as it is to the program that shows it."""
    try:
        card = normal_texts(yaml_values(text)[0])
    except UnreadableDocument:
        return {}
    return card if isinstance(card, dict) else {}


def _card_requirements(evidence: Evidence, path: str, card: Mapping[str, Any]) -> dict[str, bool]:
    """Ask what a finished card needs, by the names that Memex has for each."""
    fact = evidence.task_input["fact_id"]
    return {
        "matching_successful_save_timeline_card_tool_call": _was_saved(evidence, path),
        "card_file_exists": path in evidence.after,
        "persisted_fact_id_matches": card.get("fact_id") == fact,
        "status_completed": card.get("status") == "completed",
        "title_present": bool((_text(card.get("title")) or "").strip()),
        "ui_configs_present": bool(_configs(card)),
    }


def _was_saved(evidence: Evidence, path: str) -> bool:
    """Whether the card came or changed, or was saved as it already was."""
    before, after = evidence.before.files.get(path), evidence.after.files.get(path)
    if after is not None and (before is None or before.digest != after.digest):
        return True
    saves = (call for call in evidence.calls if call.tool == SAVE and call.error is None)
    return any(call.args.get("fact_id") == evidence.task_input["fact_id"] for call in saves)


def _configs(card: Mapping[str, Any]) -> list[Any]:
    configs = card.get("ui_configs")
    return configs if isinstance(configs, list) else []


def _template_id(config: Any) -> str:
    id = config.get("template_id") if isinstance(config, Mapping) else None
    return id if isinstance(id, str) and id else NO_TEMPLATE_ID


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)


def _marker_counts(fact: str, tree: Tree) -> dict[str, int]:
    counts = {path: count_marker(fact, file.text) for path, file in files_below(tree).items()}
    return {path: number for path, number in counts.items() if number}
