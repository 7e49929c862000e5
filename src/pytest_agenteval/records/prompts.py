"""Prompt templates: those of an agent, and those that replace them; forms; and which prompts were sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import cache
from importlib.resources import files
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from pytest_agenteval.records.record import FrozenMap
from pytest_agenteval.records.transcript import AROUND_TAPES, STARTED_PROGRAM, UNREAD_REQUEST, Transcript
from pytest_agenteval.text.errors import AgentEvalError, TrialBroken, did_you_mean, exception_text
from pytest_agenteval.text.json_values import canonical_json, json_digest, text_digest

if TYPE_CHECKING:
    from jinja2 import Environment, Template


ENDING = ".jinja"

# A - or + in a tag of jinja2 is about white space.
_INCLUDED = r"""{%-?\+?\s*(?:include|import|from|extends)\s+(?:\[\s*)?["']([^"']+)["']"""


@cache
def read_templates(package: str, folder: str = "prompts") -> Mapping[str, str]:
    """Read a package folder's ``.jinja`` files into a map from name to text.

    For an agent class beside a folder ``prompts``: ``templates = read_templates(__package__)``. The texts
    are read once.
    """
    entries = files(package).joinpath(folder).iterdir()
    return {
        file.name.removesuffix(ENDING): file.read_text(encoding="utf-8")
        for file in sorted(entries, key=lambda file: file.name)
        if file.name.endswith(ENDING)
    }


def included_prompts(text: str) -> Collection[str]:
    """Name the prompts that a template includes, imports from or extends, if it names them literally."""
    return frozenset(re.findall(_INCLUDED, text))


class PromptBroken(TrialBroken):
    """A prompt file cannot be rendered."""

    cause = "prompt"

    def __init__(self, name: str, wrong: Exception, values: Mapping[str, Any]) -> None:
        # jinja2 compiles templates that have no file under this name.
        lines = [row.lineno for row in extract_tb(wrong.__traceback__) if row.filename == "<template>"]
        line = getattr(wrong, "lineno", None) or (lines[-1] if lines else None)
        place = f", line {line}" if line else ""
        missing = getattr(wrong, "templates", None)  # as jinja2's TemplateNotFound has it
        first_line = exception_text(wrong).split("\n")[0].removesuffix(".")
        why = f"there is no prompt {missing[0]!r} to include" if missing else first_line
        given = f"the agent gives it {', '.join(sorted(values)) or 'no values'}"
        super().__init__(f"the prompt file for {name!r}{place}: {why}; {given}")


class NoPrompt(TrialBroken):
    """An agent requests a prompt that neither it nor anybody else provides."""

    cause = "prompt"

    def __init__(self, name: str, known: Collection[str]) -> None:
        hint = did_you_mean(name, known) or f"`prompts: {{{name}: FILE}}` in suite.yaml gives it one"
        super().__init__(f"the agent reads the prompt {name!r}, which does not exist; {hint}")


class PromptNotSent(TrialBroken):
    """An agent that reads its prompts by itself sent none of those that suite.yaml names."""

    cause = "prompt"

    def __init__(self, own: Mapping[str, str], *, is_signed: bool, has_asks: bool) -> None:
        names = ", ".join(map(repr, own))
        where = f"the text of the prompt {names} (`prompts:` in suite.yaml)"
        name = next(iter(own))
        parameter = name if name.endswith("_prompt") else f"{name}_prompt"
        if not any(text.strip() for text in own.values()):
            how = "its file is empty: it has to hold the text that the agent sends"
        elif not has_asks:
            how = "no request of the agent to a model was seen: only these can show which prompt was used"
        elif is_signed:
            how = f"its requests are signed, so their text cannot be replaced: use a parameter `{parameter}`"
        elif any(_FILLED_IN.search(text) for text in own.values()):
            how = f"a text with placeholders is sent with other words: use a parameter `{parameter}`"
        else:
            how = f"name the file whose whole text the agent sends, or use a parameter `{parameter}`"
        super().__init__(f"{where} was in no request of the agent to a model\n  {how}")


class Prompts:
    """An agent's prompts, rendered by name.

    ``own`` are the agent's templates; ``changed`` replaces some of them by name. Templates see the values
    they are given and one another (``{% include "name" %}``); a value that is missing is an error. In a
    trial, ``names_read`` are the prompts that its agent has read. ``broken`` says why a prompt could not be
    filled in: the agent may catch that error and hide it.
    """

    broken: PromptBroken | None = None

    def __init__(self, own: Mapping[str, str], changed: Mapping[str, str]) -> None:
        self.texts: Mapping[str, str] = {**own, **changed}
        self._texts = self.texts
        self._changed = frozenset(changed)
        self.names_read: set[str] = set()
        self._record: PromptRecord | None = None
        self._parts: dict[str, tuple[tuple[str, str], ...]] = {}

    def recorded_by(self, record: PromptRecord) -> Prompts:
        """Give the same prompts for one trial; each that is read, included ones too, goes to ``record``."""
        prompts = copy(self)
        prompts._record, prompts.names_read = record, set()
        prompts.texts = _RecordedTexts(self._texts, prompts)
        return prompts

    def record_read(self, name: str) -> None:
        """Record that the agent reads a prompt, for agents that fill in ``texts`` themselves.

        Does nothing outside of a trial.
        """
        if self._record is not None:
            for part, of_text in self.parts(name):
                self.names_read.add(part)
                self._record(part, of_text)

    def digest(self) -> str:
        """Give a digest of every text."""
        return json_digest(self._texts)

    def parts(self, name: str) -> tuple[tuple[str, str], ...]:
        """Give the prompt of that name, and those that it includes, each with a digest of its text."""
        if name not in self._parts:
            names, left = [name], [name]
            while left:
                included = sorted(included_prompts(self._texts.get(left.pop(), "")))
                new = [part for part in included if part not in names]
                names += new
                left += new
            self._parts[name] = tuple(
                (part, json_digest(self._texts[part])) for part in names if part in self._texts
            )
        return self._parts[name]

    def load(self) -> None:
        """Import what templates need and compile them, so that this costs no trial its seconds."""
        if not self._texts:
            return
        from jinja2 import TemplateError

        environment = _environment(tuple(sorted(self._texts.items())))
        for name in self._texts:
            # Rendering the template raises the same error, where it can be reported.
            with suppress(TemplateError):
                environment.get_template(name)

    def render(self, name: str, /, **values: Any) -> str:
        """Fill in the template of that name; raises PromptBroken for a file that replaced the agent's own."""
        self.record_read(name)
        if name not in self._texts:
            raise NoPrompt(name, self._texts)
        try:
            # Sorted, so that equal texts share one environment, in whatever order they come.
            environment = _environment(tuple(sorted(self._texts.items())))
            return environment.get_template(name).render(**values).strip()
        except Exception as wrong:
            # For the agent's own templates the traceback shows its author where they were rendered.
            if name not in self._changed:
                raise
            self.broken = PromptBroken(name, wrong, values)
            raise self.broken from None


# Is called with the name of each prompt that is read, and the digest of its text.
PromptRecord = Callable[[str, str], None]


class _RecordedTexts(dict[str, str]):
    """The texts of one trial's prompts, by name: to take one of them, or all, is to read it."""

    def __init__(self, texts: Mapping[str, str], prompts: Prompts) -> None:
        super().__init__(texts)
        self._prompts = prompts

    def __getitem__(self, name: str) -> str:
        self._prompts.record_read(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        if name in self:
            self._prompts.record_read(name)
        return super().get(name, default)

    def items(self) -> Any:
        """Return all of them, to be combined elsewhere: ``record_read`` reports which of them matter."""
        self._prompts.names_read.update(self)
        return super().items()

    def values(self) -> Any:
        self._prompts.names_read.update(self)
        return super().values()


@cache
def _environment(texts: tuple[tuple[str, str], ...]) -> Environment:
    # One for each set of texts: to compile a template costs more than a whole offline trial.
    from jinja2 import DictLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(
        loader=DictLoader(dict(texts)), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


class InvalidForm(AgentEvalError):
    """Raised for a text that is no form, with the line and what was found on it."""

    def __init__(self, line: int, found: str) -> None:
        super().__init__(f"line {line}: {found}")
        self.line, self.found = line, found


class Form:
    """One text with places for values: ``{{ name }}``, ``{% if name %}``, and nothing that computes.

    So a value is written whole or not at all: no filter, loop or macro can take a part of it. Raises
    InvalidForm where there is anything else. ``names`` holds each value's name and the line that names it.
    """

    def __init__(self, text: str) -> None:
        from jinja2 import StrictUndefined, TemplateSyntaxError
        from jinja2.nodes import Name, Node
        from jinja2.sandbox import SandboxedEnvironment

        environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        try:
            nodes = list(environment.parse(text).find_all(Node))
        except TemplateSyntaxError as wrong:
            raise InvalidForm(wrong.lineno, wrong.message or "no template") from None
        for node in nodes:
            # What is not listed is refused, so that later kinds of jinja2 are refused as well.
            if type(node).__name__ not in _IN_FORMS:
                raise InvalidForm(node.lineno, f"{type(node).__name__.lower()} in the template")
        names: dict[str, int] = {}
        for node in nodes:
            if isinstance(node, Name):
                names.setdefault(node.name, node.lineno)
        # jinja2 puts the template itself there, whatever the values are.
        if "self" in names:
            raise InvalidForm(names["self"], "the name self, which templates keep for themselves")
        self._template: Template = environment.from_string(text)
        self.names: Mapping[str, int] = names

    def render(self, values: Mapping[str, object]) -> str:
        """Write every value into its place, as ``str`` gives it."""
        return self._template.render(values).strip()


_IN_FORMS = frozenset({"Template", "Output", "TemplateData", "Name", "If", "Not", "And", "Or"})


# Characters of placeholders: a template's lines that hold one may be sent with other words.
_FILLED_IN = re.compile(r"[{}$%<>]")

# Kinds of events after which a prompt may have been sent in a request that could not be read.
_UNSEEN = (UNREAD_REQUEST, AROUND_TAPES, STARTED_PROGRAM)


def unsent_prompts(given: Mapping[str, str], transcript: Transcript) -> Iterator[str]:
    """Name the prompts of which a line is in no message; none where a request may not have been seen.

    Lines that a program may fill in are not looked for.
    """
    if not transcript.asks or any(event.kind in _UNSEEN for event in transcript.events):
        return
    # White space is not compared: an agent may indent and wrap its prompts.
    sent = [" ".join(message.content.split()) for message in transcript.messages if message.role != "tool"]
    for name, text in given.items():
        lines = (" ".join(line.split()) for line in text.splitlines() if not _FILLED_IN.search(line))
        if not all(any(line in message for message in sent) for line in lines):
            yield name


# What a model receives before the conversation: its role, its task and its tools.
SYSTEM_PROMPT, FIRST_MESSAGE, TOOL_LIST = "system prompt", "first message", "list of tools"


def sent_texts(transcript: Transcript, *, tools: bool = True) -> dict[str, str]:
    """Give the texts that an agent has sent its models, by kind; a kind of which it sent none is left out."""
    # Instructions that are sent anew with each request count once.
    system = dict.fromkeys(
        message.content
        for message in transcript.messages
        if message.role == "system" and not message.seeded and message.content
    )
    first = next((message.content for message in transcript.messages if message.role == "user"), "")
    declared = sorted(canonical_json(tool.declaration()) for tool in transcript.tools) if tools else ()
    texts = {SYSTEM_PROMPT: "\n\n".join(system), FIRST_MESSAGE: first, TOOL_LIST: "\n".join(declared)}
    return {kind: text for kind, text in texts.items() if text}


def sent_digests(
    transcript: Transcript, words: Collection[str] | None, *, has_tools: bool
) -> Mapping[str, str]:
    """Give the digest of each text that was sent, except those that are known otherwise.

    These are a first message that is one of the task's own ``words`` (None where a model plays the user), and
    tools that the trial itself offers.
    """
    texts = sent_texts(transcript, tools=not has_tools)
    known = {FIRST_MESSAGE} if words is None or texts.get(FIRST_MESSAGE, "").strip() in words else set()
    return FrozenMap({kind: text_digest(text) for kind, text in texts.items() if kind not in known})
