"""The fields of ATIF's steps, calls and metrics, each read strictly; what we wrote beside them too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.parts import UNFINISHED, UNKNOWN_USAGE, Place, content_text
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import NO_PARAMETERS, ToolSpec, shown_value
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    Ask,
    Event,
    Message,
    Role,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
)

OURS = "agenteval"
"""The key in ``extra`` below which stands what the format has no word for."""

NEWEST = 8
_VERSION = re.compile(r"ATIF-v1\.([0-9]+)")
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


def check_version(trajectory: Place) -> None:
    """Raise UnreadableTranscript for a version other than 1.0 to 1.8."""
    version = trajectory.at("schema_version", f"ATIF-v1.0 to ATIF-v1.{NEWEST}")
    match = _VERSION.fullmatch(version.text())
    if match is None or int(match[1]) > NEWEST:
        raise version.wrong(f"ATIF-v1.0 to ATIF-v1.{NEWEST}")


def ours_of(place: Place) -> Place:
    """Give what we wrote beside what the format knows; an empty map where that is nothing."""
    extra = place.get("extra") if "extra" in place.map() else None
    ours = extra.get(OURS) if extra is not None and isinstance(extra.value, Mapping) else None
    return Place(NOTHING, (*place.path, "extra", OURS)) if ours is None else ours


def place_in(ours: Place, places: list[Any]) -> int:
    """Give the number of a message or call: the stated one, else the next."""
    return ours.count_of("place") if "place" in ours.value else len(places)


def results_of(step: Place) -> Iterator[Place]:
    observation = step.get("observation")
    return iter(()) if observation is None else observation.items_of("results")


def requests_of(step: Place, by: str, turn: int) -> tuple[ToolCall, ...]:
    """Give the calls that a step asks for; ``by`` and ``turn`` are for calls that do not state their own."""
    calls = []
    for index, call in enumerate(step.items_of("tool_calls")):
        ours = ours_of(call)
        id, tool = call.at("tool_call_id", "a text"), call.at("function_name", "the name of a tool")
        args = call.at("arguments", "a map").map()
        fields: dict[str, Any] = {"by": by, "turn": turn, "index": index, "raw_args": None}
        fields |= differences_of(ours)
        calls.append(ToolCall(id.text(), tool=tool.text(), args=args, **fields))
    return tuple(calls)


def differences_of(ours: Place) -> dict[str, Any]:
    """Give the fields that a call states itself, where its place in the trajectory implies another value."""
    names = {"by": "by", "turn": "turn", "index": "index", "arguments": "args", "raw_arguments": "raw_args"}
    return {field: ours.value[name] for name, field in names.items() if name in ours.value}


def metrics_usage(metrics: Place | None, total: str = "") -> Usage | None:
    """Read a step's metrics or, with ``total_`` before each name, those of a trajectory."""
    if metrics is None:
        return None
    read, written, cached = (
        metrics.known_count_of(f"{total}{name}_tokens") for name in ("prompt", "completion", "cached")
    )
    reasoning = ours_of(metrics).known_count_of("reasoning_tokens")
    return Usage(read, written, cached, reasoning, metrics.number_of(f"{total}cost_usd"), 1)


def tool_definition(definition: Place) -> ToolSpec:
    """Read a tool as chat completions declare it; one without ``function`` around it will do."""
    function = definition.get("function") or definition
    # ``input_schema`` is Anthropic's word.
    parameters = function.get("parameters") or function.get("input_schema")
    schema = NOTHING if parameters is None else parameters.map()
    name = function.at("name", "the name of a tool").text()
    return ToolSpec(name, function.text_of("description"), NOTHING if schema == NO_PARAMETERS else schema)


def moment_of(at: Place) -> datetime:
    """Read a time in ISO 8601, which is UTC where it does not say otherwise."""
    try:
        read = datetime.fromisoformat(at.text("a time in ISO 8601"))
    except ValueError:
        raise at.wrong("a time in ISO 8601") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def read_atif(trajectory: Place) -> Transcript:
    """Give the transcript of a trajectory; raises UnreadableTranscript, which names the place."""
    reader = _TrajectoryReader(trajectory)
    reader.read(trajectory)
    read = reader.transcript(trajectory)
    # Our own values beside the format were taken as they are: this raises where one is of another type.
    if reader.is_ours:
        Transcript.from_json(read.to_json())
    return read


class _TrajectoryReader:
    """Puts the steps of a trajectory, and of those that are embedded in it, together."""

    def __init__(self, trajectory: Place) -> None:
        self.is_ours = bool(ours_of(trajectory).value)
        # Times count from the start of our trial, else from the earliest time of any step.
        began = ours_of(trajectory).get("started_at")
        if began is not None:
            self._start: datetime | None = moment_of(began)
        else:
            times = (step.get("timestamp") for step in trajectory.items_of("steps"))
            self._start = min((moment_of(at) for at in times if at is not None), default=None)
        self._last_phase = 0
        self._messages: list[tuple[int, Message]] = []
        self._calls: list[tuple[int, ToolCall]] = []
        self._asks: list[Ask] = []
        self._tools: tuple[ToolSpec, ...] = ()

    def read(self, trajectory: Place) -> None:
        """Read one trajectory, then those of its sub-agents."""
        check_version(trajectory)
        self._first_phase = self._last_phase + 1
        agent = trajectory.get("agent")
        if agent is not None:
            self._tools = self._tools or tuple(map(tool_definition, agent.items_of("tool_definitions")))
        for step in trajectory.at("steps", "the list of steps").items():
            self._read_step(step)
        # A sub-agent has a conversation of its own, which a transcript holds as another phase.
        self._last_phase = max([message.phase for _, message in self._messages], default=1)
        for inner in trajectory.items_of("subagent_trajectories"):
            self.read(inner)

    def transcript(self, trajectory: Place) -> Transcript:
        """Give what has been read, in its order."""
        events = []
        for event in ours_of(trajectory).items_of("events"):
            try:
                events.append(Event.from_json(event.map()))
            except TypeError:
                raise event.wrong("an event as it was written") from None
        return Transcript(
            tuple(message for _, message in sorted(self._messages, key=itemgetter(0))),
            tuple(call for _, call in sorted(self._calls, key=itemgetter(0))),
            tuple(self._asks),
            tuple(events),
            self._total(trajectory.get("final_metrics")),
            self._tools,
        )

    def _read_step(self, step: Place) -> None:
        ours, source = ours_of(step), step.at("source", "one of system, user, agent")
        if source.text() not in _ROLES:
            raise source.wrong("one of system, user, agent")
        role = _ROLES[source.value]
        content = content_text(step.at("message", "a text or a list of parts"))
        # Others may write results of tools into a step of the system or the user, which has no text then.
        if role != "assistant":
            results = list(results_of(step)) if not content else []
            result_text = "\n".join(content_text(result.get("content")) for result in results)
            self._say(step, "tool" if results else role, result_text or content)
        # Such a step holds calls that no model requested, and is no message.
        elif ours.value.get("requested") is False or (step.number_of("llm_call_count") == 0 and not content):
            turn = ours.count_of("turn") or len(self._asks)
            self._read_results(step, requests_of(step, "agent", turn), None)
        else:
            self._read_assistant(step, content)

    def _read_assistant(self, step: Place, content: str) -> None:
        copied = step.value.get("is_copied_context") is True
        inferences = step.number_of("llm_call_count")
        is_reply = inferences == 1 if self.is_ours else not copied and inferences != 0
        turn = self._turn(step)
        requests = requests_of(step, "agent", turn) if is_reply else requests_of(step, "seed", 0)
        message = self._say(step, "assistant", content, requests)
        if is_reply:
            self._asks.append(self._ask(step, turn))
        self._read_results(step, requests, message, is_reply=is_reply)

    def _say(self, step: Place, role: Role, content: str, calls: tuple[ToolCall, ...] = ()) -> Message:
        ours = ours_of(step)
        if role != "assistant":
            calls = ()
            for call in ours.items_of("calls"):
                try:
                    calls += (ToolCall.from_json(call.map()),)
                except TypeError:
                    raise call.wrong("a call as it was written") from None
        copied = step.value.get("is_copied_context") is True and not self.is_ours
        phase = ours.count_of("phase") or self._first_phase
        seeded = ours.value.get("seeded") is True or copied
        message = Message(role, content, calls, self._turn(step), seeded, phase, ours.text_of("call_id"))
        self._messages.append((place_in(ours, self._messages), message))
        return message

    def _turn(self, step: Place) -> int:
        """Give the number of the reply that a step is, or comes before."""
        return ours_of(step).count_of("turn") if self.is_ours else len(self._asks) + 1

    def _ask(self, step: Place, turn: int) -> Ask:
        ours, ended = ours_of(step), self._seconds(step, "timestamp")
        usage = metrics_usage(step.get("metrics")) or UNKNOWN_USAGE
        usage = replace(usage, asks=ours.count_of("asks") or 1, attempts=ours.known_count_of("attempts"))
        asks_calls = any(True for _ in step.items_of("tool_calls")) and not self.is_ours
        return Ask(
            ours.count_of("ask_turn") or turn,
            self._seconds(ours, "sent_at") if ours.get("sent_at") else ended,
            ended,
            usage,
            ours.text_of("finish") or ("tool_calls" if asks_calls else "stop"),
            ours.number_of("first_token_s"),
            step.text_of("reasoning_content"),
            step.text_of("model_name"),
        )

    def _read_results(
        self, step: Place, requests: tuple[ToolCall, ...], message: Message | None, *, is_reply: bool = False
    ) -> None:
        """Read what came of a step's calls, each with the message that showed it to the model."""
        waiting = list(requests)
        for result in results_of(step):
            id = result.get("source_call_id")
            if id is None:
                request = waiting[0] if len(requests) == 1 and waiting else None
            else:
                request = next((call for call in waiting if call.id == id.text()), None)
            # A result of no call here becomes a message of its own. What we wrote beside the step belongs to
            # the step's own message, and is left out.
            if request is None:
                fields = {name: value for name, value in step.map().items() if name != "extra"}
                self._say(Place(fields, step.path), "tool", content_text(result.get("content")))
                continue
            waiting.remove(request)
            if message is not None and ours_of(result).value.get("shown") is not False:
                self._tell(request, result, message, usual_turn=message.turn + is_reply)
            # Of a call that was never carried out, we write the message alone.
            if not self.is_ours or {*ours_of(result).value} - {"message"}:
                self._end(request, result)
        # We write every call's end. In others' trajectories, a call without a result did not end.
        if not self.is_ours:
            self._calls += [(len(self._calls), replace(call, error=UNFINISHED)) for call in waiting]

    def _tell(self, request: ToolCall, result: Place, message: Message, usual_turn: int) -> None:
        ours = ours_of(result).get("message") or Place(NOTHING)
        turn = ours.count_of("turn") if "turn" in ours.value else usual_turn
        phase = ours.count_of("phase") or message.phase
        seeded = ours.value.get("seeded", message.seeded) is True
        tool_message = Message(
            "tool", content_text(result.get("content")), (), turn, seeded, phase, request.id
        )
        self._messages.append((place_in(ours, self._messages), tool_message))

    def _end(self, request: ToolCall, result: Place) -> None:
        ours, content = ours_of(result), content_text(result.get("content"))
        error = ours.get("error")
        failed = None if error is None else ToolError(error.text_of("type"), error.text_of("message"))
        own_value = json.loads(content) if ours.value.get("json") is True else content
        value = own_value if self.is_ours else shown_value(content)
        place = place_in(ours, self._calls)
        call = replace(
            request,
            result=ours.value.get("result", value) if failed is None else None,
            error=failed,
            started=self._seconds(ours, "started_at"),
            ended=self._seconds(ours, "ended_at"),
            tape=ours.text_of("tape") or "none",
            **differences_of(ours),
        )
        self._calls.append((place, call))

    def _seconds(self, place: Place, key: str) -> float:
        """Give a time as seconds since the start; 0 where there is none."""
        at = place.get(key)
        return 0.0 if at is None or self._start is None else (moment_of(at) - self._start).total_seconds()

    def _total(self, metrics: Place | None) -> Usage:
        """Give the usage of all steps: the stated total, where the steps have none of their own."""
        ours = Place(NOTHING) if metrics is None else ours_of(metrics)
        total = metrics_usage(metrics, "total_")
        if ours.value and total is not None:
            cost = total.cost_usd if total.cost_usd is not None or ours.count_of("asks") else 0.0
            counts = {name: ours.known_count_of(name) for name in ("asks", "attempts", "reasoning_tokens")}
            part_of_cost = ours.number_of("partial_cost_usd") or 0.0
            parts = {"partial_tokens": ours.count_of("partial_tokens"), "partial_cost_usd": part_of_cost}
            return replace(total, cost_usd=cost, **counts, **parts)
        summed = sum([ask.usage for ask in self._asks], NO_USAGE)
        if total is None or summed.known_tokens:
            return summed
        return replace(total, asks=len(self._asks))
