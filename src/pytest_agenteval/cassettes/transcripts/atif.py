"""A trajectory in the Agent Trajectory Interchange Format (ATIF) as a transcript.

Versions 1.0 to 1.8 are read as harbor's own models state them; ``reports/exports/atif.py`` writes 1.7. What
stands in ``extra`` below ``agenteval`` is ours: with it, what we wrote is read back equal, times to the
microsecond. Of others' trajectories:

- each step of the agent is a model's reply, unless its ``llm_call_count`` is 0 or it is copied context;
- times count from the first one that a step tells; a reply's is when it had come;
- an observation without ``source_call_id`` is the result of its step's only call, else a message of a tool;
- embedded trajectories of sub-agents are further conversations.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.atif_fields import (
    asked_times,
    call_of,
    check_version,
    differences_of,
    event_of,
    in_order,
    moment_of,
    ours_of,
    place_in,
    requested,
    requests_of,
    results_of,
    role_of,
    start_of,
    tool_of,
    usage_of,
    without_ours,
)
from pytest_agenteval.cassettes.transcripts.builder import UNFINISHED, UNKNOWN_USAGE
from pytest_agenteval.cassettes.transcripts.parts import content_text
from pytest_agenteval.cassettes.transcripts.place import Place
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import ToolSpec, shown_value
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    Ask,
    Message,
    Role,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
)


def read_atif(trajectory: Place) -> Transcript:
    """Give the transcript of a trajectory; raises UnreadableTranscript, which names the place."""
    reader = _Reader(trajectory)
    reader.read(trajectory)
    read = reader.transcript(trajectory)
    if reader.is_ours:  # what is told beside the format is taken as it is: here it shows whether it fits
        Transcript.from_json(read.to_json())
    return read


class _Reader:
    """Puts the steps of a trajectory, and of those that are embedded in it, together."""

    def __init__(self, trajectory: Place) -> None:
        self.is_ours = bool(ours_of(trajectory).value)
        self._start = start_of(trajectory)
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
            self._tools = self._tools or tuple(map(tool_of, agent.items_of("tool_definitions")))
        for step in trajectory.at("steps", "the list of steps").items():
            self._read_step(step)
        self._last_phase = max([message.phase for _, message in self._messages], default=1)
        for inner in trajectory.items_of("subagent_trajectories"):
            self.read(inner)

    def transcript(self, trajectory: Place) -> Transcript:
        """Give what has been read, in its order."""
        return Transcript(
            in_order(self._messages),
            in_order(self._calls),
            tuple(self._asks),
            tuple(map(event_of, ours_of(trajectory).items_of("events"))),
            self._total(trajectory.get("final_metrics")),
            self._tools,
        )

    def _read_step(self, step: Place) -> None:
        ours, role = ours_of(step), role_of(step)
        content = content_text(step.at("message", "a text or a list of parts"))
        if role != "assistant":
            results = list(results_of(step)) if not content else []
            result_text = "\n".join(content_text(result.get("content")) for result in results)
            self._say(step, "tool" if results else role, result_text or content)
        elif ours.value.get("requested") is False or (asked_times(step) == 0 and not content):
            turn = ours.count_of("turn") or len(self._asks)
            self._read_results(step, requests_of(step, "agent", turn), None)
        else:
            self._read_assistant(step, content)

    def _read_assistant(self, step: Place, content: str) -> None:
        copied = step.value.get("is_copied_context") is True
        is_reply = asked_times(step) == 1 if self.is_ours else not copied and asked_times(step) != 0
        turn = self._turn(step)
        requests = requests_of(step, "agent", turn) if is_reply else requests_of(step, "seed", 0)
        message = self._say(step, "assistant", content, requests)
        if is_reply:
            self._asks.append(self._ask(step, turn))
        self._read_results(step, requests, message, is_reply=is_reply)

    def _say(self, step: Place, role: Role, content: str, calls: tuple[ToolCall, ...] = ()) -> Message:
        ours = ours_of(step)
        if role != "assistant":
            calls = tuple(map(call_of, ours.items_of("calls")))
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
        usage = usage_of(step.get("metrics")) or UNKNOWN_USAGE
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
        self,
        step: Place,
        requests: tuple[ToolCall, ...],
        message: Message | None,
        *,
        is_reply: bool = False,
    ) -> None:
        """Read what came of a step's calls, each with the message that told the model of it."""
        waiting = list(requests)
        for result in results_of(step):
            request = requested(result, waiting, requests)
            if request is None:  # of nobody's call
                self._say(without_ours(step), "tool", content_text(result.get("content")))
                continue
            waiting.remove(request)
            if message is not None and ours_of(result).value.get("shown") is not False:
                self._tell(request, result, message, usual_turn=message.turn + is_reply)
            if not self.is_ours or {*ours_of(result).value} - {"message"}:  # else it was never carried out
                self._end(request, result)
        if not self.is_ours:
            self._calls += [(len(self._calls), replace(call, error=UNFINISHED)) for call in waiting]

    def _tell(self, request: ToolCall, result: Place, message: Message, usual_turn: int) -> None:
        """Add the message that told the model of a result."""
        ours = ours_of(result).get("message") or Place(NOTHING)
        turn = ours.count_of("turn") if "turn" in ours.value else usual_turn
        phase = ours.count_of("phase") or message.phase
        seeded = ours.value.get("seeded", message.seeded) is True
        tool_message = Message(
            "tool", content_text(result.get("content")), (), turn, seeded, phase, request.id
        )
        self._messages.append((place_in(ours, self._messages), tool_message))

    def _end(self, request: ToolCall, result: Place) -> None:
        """Add a call with what came of it."""
        ours, content = ours_of(result), content_text(result.get("content"))
        error = ours.get("error")
        failed = None if error is None else ToolError(error.text_of("type"), error.text_of("message"))
        own_value = json.loads(content) if ours.value.get("json") is True else content
        value = (
            ours.value["result"]
            if "result" in ours.value
            else own_value
            if self.is_ours
            else shown_value(content)
        )
        self._calls.append(
            (
                place_in(ours, self._calls),
                replace(
                    request,
                    result=value if failed is None else None,
                    error=failed,
                    started=self._seconds(ours, "started_at"),
                    ended=self._seconds(ours, "ended_at"),
                    tape=ours.text_of("tape") or "none",
                    **differences_of(ours),
                ),
            )
        )

    def _seconds(self, place: Place, key: str) -> float:
        """Give a time as seconds since the start; 0 where nothing is said."""
        at = place.get(key)
        return 0.0 if at is None or self._start is None else (moment_of(at) - self._start).total_seconds()

    def _total(self, metrics: Place | None) -> Usage:
        """Give what all took: what is told of all, where steps do not say it."""
        ours, total = Place(NOTHING) if metrics is None else ours_of(metrics), usage_of(metrics, "total_")
        if ours.value and total is not None:
            cost = total.cost_usd if total.cost_usd is not None or ours.count_of("asks") else 0.0
            counts = {name: ours.known_count_of(name) for name in ("asks", "attempts", "reasoning_tokens")}
            part_of_cost = ours.number_of("partial_cost_usd") or 0.0
            parts = {"partial_tokens": ours.count_of("partial_tokens"), "partial_cost_usd": part_of_cost}
            return replace(total, cost_usd=cost, **counts, **parts)
        summed = sum([ask.usage for ask in self._asks], NO_USAGE)
        return (
            replace(total, asks=len(self._asks)) if total is not None and not summed.known_tokens else summed
        )
