"""The prompts of an agent that reads them by itself: found, and replaced, in its requests to models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_agenteval.cassettes.interaction import Request, utf8_json
from pytest_agenteval.cassettes.wire.traffic import UnreadableTraffic, json_object

# Keys of a body that hold instructions: of OpenAI's responses, Anthropic and Bedrock, and Gemini.
_INSTRUCTIONS = ("instructions", "system", "systemInstruction", "system_instruction")
# Keys that hold messages; some formats take one text there.
_MESSAGES = ("messages", "input", "contents", "prompt")
# Keys of a part of a message that is the result of a tool.
_OF_RESULTS = frozenset({"tool_use_id", "toolResult", "functionResponse", "function_response"})


class PromptReplacement:
    """The prompts of one trial whose agent reads ``own`` texts by itself, by name; ``given`` replace them.

    A prompt that is not in ``given`` stays as it is, and is only looked for. White space at the ends of a
    text does not count. ``names`` are those of ``own``, ``sent_names`` those whose text a request contained.
    ``signed`` says that a request contained one and could not be changed, because it is signed.
    """

    def __init__(self, own: Mapping[str, str], given: Mapping[str, str]) -> None:
        self.names: Collection[str] = own.keys()
        pairs = {name: (text.strip(), given.get(name, text).strip()) for name, text in own.items()}
        self._texts = {name: pair for name, pair in pairs.items() if pair[0]}
        # The longest first, as one text may begin another.
        longest = sorted({old for old, _ in self._texts.values()}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest)) or r"(?!)")
        self.sent_names: set[str] = set()
        self.signed = False

    def in_request(self, request: Request) -> Request:
        """Give the request with the given texts; the same object where nothing changes."""
        try:
            body = json_object(request.body)
        except UnreadableTraffic:
            return request
        seen: set[str] = set()
        instructions = {key: self._in_value(body[key], seen) for key in _INSTRUCTIONS if key in body}
        changed = {**self._in_messages(body, seen, _is_instruction), **instructions}
        # What no instructions hold may be part of what the user says.
        if not seen:
            texts = {key: body[key] for key in _MESSAGES if isinstance(body.get(key), str)}
            changed = self._in_messages(body, seen, _is_of_user)
            changed |= {key: self._in_text(text, seen) for key, text in texts.items()}
        is_same = changed == body
        if not is_same and _is_signed(request):
            self.signed = True
            return request
        self.sent_names |= seen
        return (
            request if is_same else replace(request, body=utf8_json(json.dumps(changed, ensure_ascii=False)))
        )

    def _in_messages(
        self, body: Mapping[str, Any], seen: set[str], accepts: Callable[[Mapping[str, Any]], bool]
    ) -> dict[str, Any]:
        changed = dict(body)
        for key in _MESSAGES:
            if isinstance(body.get(key), list):
                changed[key] = [
                    self._in_value(each, seen) if isinstance(each, dict) and accepts(each) else each
                    for each in body[key]
                ]
        return changed

    def _in_value(self, value: Any, seen: set[str]) -> Any:
        """Replace in every text of a message, whatever parts it has, but for results of tools."""
        if isinstance(value, str):
            return self._in_text(value, seen)
        if isinstance(value, list):
            return [self._in_value(each, seen) for each in value]
        if isinstance(value, dict) and _OF_RESULTS.isdisjoint(value):
            return {key: self._in_value(each, seen) for key, each in value.items()}
        return value

    def _in_text(self, text: str, seen: set[str]) -> str:
        plain = text.replace("\r\n", "\n")
        new_texts = {}
        for name, (old, new) in self._texts.items():
            # An agent may have got the new text in another way; then the old one may be a part of it.
            has_new = bool(new) and new in plain and (old not in plain or old in new)
            if has_new or old in plain:
                seen.add(name)
            if not has_new:
                new_texts[old] = new
        changed = self._pattern.sub(lambda match: new_texts.get(match[0], match[0]), plain)
        return text if changed == plain else changed


def _is_instruction(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _is_of_user(message: Mapping[str, Any]) -> bool:
    # Gemini's messages may lack a role; OpenAI's results of tools have a type in its place.
    return message.get("role") == "user" or ("role" not in message and "type" not in message)


def _is_signed(request: Request) -> bool:
    """Whether a request holds a signature of its body, as those to Amazon Bedrock do."""
    headers = request.headers.items()
    return any(
        name.lower() == "authorization" and value.startswith("AWS4-") for name, it in headers for value in it
    )
