"""One trial on the terminal: how it ended and why, what was said and called, what it left."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    PROMPT_READ,
    cost_figure,
    format_cost,
    format_tokens,
    token_figure,
)
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.show.conversation_lines import conversation_lines
from pytest_agenteval.reports.show.diff_lines import workspace_lines, workspace_title
from pytest_agenteval.reports.show.foreign_text import Detail, block_lines, cut, first_line, indented_json
from pytest_agenteval.reports.show.reason_lines import reason_lines
from pytest_agenteval.reports.trial.trial_view import TrialView
from pytest_agenteval.text.errors import ELAPSED_MORE
from pytest_agenteval.text.formatting import (
    INDENT,
    Style,
    StyledLine,
    ending_word,
    flow,
    format_duration,
    format_moment,
    one_line,
    pluralize,
    printable,
    wrap,
)

MOST_NAME = 300
MOST_EVENTS = 20
UNTOLD_EVENTS = ("judge_ask", PROMPT_READ)
"""Events of every trial: what judges took stands in the head, which prompts were read is seldom asked."""


class TrialPlace(FrozenValue, frozen=True):
    """Where a trial stands: its run, its transcript, and what the run says of its model."""

    run: str
    transcript: str = ""
    model_note: str = ""


def trial_lines(view: TrialView, place: TrialPlace, detail: Detail) -> Iterator[StyledLine]:
    """Give all that is known of a trial, the reason first."""
    yield from head_lines(view, place, detail)
    yield from section("why", reason_lines(view, detail))
    yield from section("conversation", conversation_lines(view, detail))
    yield from section("answer", map(StyledLine, block_lines(_new_answer(view), detail, INDENT)))
    if view.state:
        yield from section("state", map(StyledLine, block_lines(indented_json(view.state), detail, INDENT)))
    yield from section(
        cut(f"workspace: {workspace_title(view)}", detail.width), workspace_lines(view, detail)
    )
    yield from section("events", _events(view, detail))
    yield from section("printed", map(StyledLine, block_lines(view.output, detail, INDENT)))
    yield from section("logged", map(StyledLine, block_lines(view.log, detail, INDENT)))
    if detail.full:
        yield from section("digests", _digests(view))
    yield from section("where", _where(view, place))


def section(title: str, lines: Iterator[StyledLine]) -> Iterator[StyledLine]:
    """Give lines below a title, and nothing where there are no lines."""
    first = next(lines, None)
    if first is not None:
        yield from (StyledLine(""), StyledLine(title, "bold"), first)
        yield from lines


def ending_style(view: TrialView) -> Style:
    """Give the colour of how a trial ended."""
    return {"passed": "green", "missed": "yellow"}.get(view.ending, "red")  # type: ignore[return-value]


def head_lines(view: TrialView, place: TrialPlace, detail: Detail) -> Iterator[StyledLine]:
    """Name the trial, how it ended, with which model in which run, and what it took."""
    title = f"{ending_word(view.ending, view.score)}  {one_line(view.name, MOST_NAME)}"
    yield from (StyledLine(line, ending_style(view)) for line in wrap(title, detail.width))
    for facts in (who_facts(view, place), resource_facts(view), _about(view)):
        yield from map(StyledLine, flow(facts, detail.width, INDENT))


def who_facts(view: TrialView, place: TrialPlace) -> Iterator[str]:
    """Say with what and when a trial was made; parts that are empty are to be left out."""
    model = one_line(view.model, MOST_NAME)
    yield f"{model} ({place.model_note})" if place.model_note else model
    yield f"prompt {one_line(view.variant, MOST_NAME)}" if view.variant else ""
    yield f"run {printable(place.run)}"
    yield format_moment(view.started_at)


def resource_facts(view: TrialView) -> Iterator[str]:
    """Say what the agent took, and what its judges."""
    charged = view.seconds - view.uncharged_seconds
    part = f" (limit counts {format_duration(charged)})" if view.seconds > charged * ELAPSED_MORE else ""
    yield f"{format_duration(view.seconds)}{part}"
    usage = view.usage
    if usage != NO_USAGE:
        yield format_tokens(token_figure(usage))
        yield format_cost(cost_figure(usage))
    if view.judging.asks:
        judging = view.judging
        yield f"judges: {format_tokens(token_figure(judging))}, {format_cost(cost_figure(judging))}"


def _about(view: TrialView) -> Iterator[str]:
    yield f"bucket {one_line(view.bucket, MOST_NAME)}" if view.bucket else ""
    yield view.kind
    yield "held out" if view.split == "held_out" else ""
    yield f"attempt {view.attempt}" if view.attempt > 1 else ""
    yield _tape("tools", view.tool_tape)
    yield _tape("chats", view.chat_tape)


def _tape(what: str, counts: TapeCounts) -> str:
    parts = (("played", counts.hits), ("not recorded", counts.misses), ("sent and recorded", counts.recorded))
    words = ", ".join(f"{count:,} {word}" for word, count in parts if count)
    return f"{what}: {words}" if words else ""


def _new_answer(view: TrialView) -> str:
    """Give the answer where the conversation does not end with it."""
    last_text = view.messages[-1].content if view.messages else ""
    return "" if last_text.strip() == view.answer.strip() else view.answer


def _events(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    events = [event for event in view.events if detail.full or event.kind not in UNTOLD_EVENTS]
    visible = events if detail.full else events[:MOST_EVENTS]
    for event in visible:
        head = f"{INDENT}{format_duration(event.at):>8}  {one_line(event.kind, 40)}  "
        text = " ".join(event.text.split()) if detail.full else event.text
        line = printable(head + text) if detail.full else head + first_line(text, detail.width - len(head))
        yield StyledLine(line)
        if detail.full and event.details:
            yield from map(StyledLine, block_lines(indented_json(event.details), detail, INDENT * 6))
    if len(visible) < len(events):
        yield StyledLine(f"{INDENT}and {pluralize(len(events) - len(visible), 'more event')} (--full)", "dim")


def _digests(view: TrialView) -> Iterator[StyledLine]:
    digests = view.digests.to_json()
    graders = digests.pop("graders", {})
    for name, value in (*digests.items(), *(graders or {}).items()):
        if value:
            yield StyledLine(f"{INDENT}{one_line(name, 60)}: {one_line(str(value), 100)}")


def _where(view: TrialView, place: TrialPlace) -> Iterator[StyledLine]:
    """Give paths whole: they are there to be copied."""
    for label, path in (
        ("task", view.file),
        ("transcript", place.transcript),
        ("workspace", view.workspace),
    ):
        if path:
            yield StyledLine(f"{INDENT}{label:<12}{printable(path)}")
