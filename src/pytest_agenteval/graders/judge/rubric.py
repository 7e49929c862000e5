"""Rubrics: the dimensions that judges score, the prompt made of them, and the files that hold them.

A rubric file is YAML between two lines of dashes, then the text that judges are given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal, get_args

from pytest_agenteval.chat.chat import ChatMessage
from pytest_agenteval.records.prompts import Form, InvalidForm, Prompts, read_templates
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.yaml_reading import YamlLineIndex, read_yaml
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean
from pytest_agenteval.text.json_values import json_digest

TOKEN_CHARS = 12


class DelimitedText:
    """A text that a template can only write between its marks; it is true unless the text is blank.

    It is no ``str``, so that nothing a template does to strings can take it apart.
    """

    __slots__ = ("_block", "_has_text")

    def __init__(self, *named: tuple[str, str], token: str) -> None:
        self._block = "\n".join(_block(name, text, token) for name, text in named)
        self._has_text = any(text.strip() for _, text in named)

    def __str__(self) -> str:
        return self._block

    def __bool__(self) -> bool:
        return self._has_text


def delimiter_for(texts: Iterable[str]) -> str:
    """Give a mark that stands in none of these texts; the same texts get the same one, so prompts repeat."""
    held = tuple(texts)
    folded = "\n".join(held).casefold()
    # The number makes another digest, until one is found that no text holds.
    tokens = (json_digest([*held, number])[:TOKEN_CHARS] for number in count())
    return next(token for token in tokens if token not in folded)


def _block(name: str, text: str, token: str) -> str:
    return f'<data-{token} name="{name}">\n{text}\n</data-{token}>'


Combine = Literal["mean", "median", "majority"]
PACKAGE = "pytest_agenteval.graders.judge"
RATIONALE = "rationale"
UNKNOWN = "unknown"
LETTERS = ascii_uppercase


class Dimension(FrozenValue, frozen=True):
    """One thing that is scored by itself, and what it asks."""

    name: str
    says: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """What judges decide, in which dimensions, on which scale; made by ``read_rubric``.

    ``text`` is the whole file, ``body`` what stands below its front matter. ``shows`` names every value that
    the body is given, with what it is; ``output`` is the one that is judged. Judges score from ``low`` to
    ``high``; everybody else sees 0 to 1. Where there are ``candidates``, the output is several texts side by
    side, shown as A, B, ….
    """

    name: str
    version: str
    dimensions: tuple[Dimension, ...]
    low: float
    high: float
    combine: Combine
    shows: Mapping[str, str]
    output: str
    text: str = field(repr=False)
    body: str = field(repr=False)
    candidates: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in their order."""
        return tuple(dimension.name for dimension in self.dimensions)

    def digest(self) -> str:
        """Give a digest of all that judges are shown, but for the values: this text and our own frame."""
        return json_digest([self.text, _frame().digest()])

    def messages(self, values: Mapping[str, str], *, candidates: Sequence[str] = ()) -> list[ChatMessage]:
        """Write the prompt; every value, and every candidate in this order, stands in a fence as data.

        Raises ValueError where the values are not those that the rubric shows.
        """
        self._check(values, candidates)
        token = delimiter_for((*values.values(), *candidates))
        fenced = {name: DelimitedText((name, text), token=token) for name, text in values.items()}
        if self.candidates:
            # Judges see letters in the place of names, and so cannot know which candidate is the agent's.
            fenced[self.output] = DelimitedText(*zip(LETTERS, candidates, strict=False), token=token)
        body = _form(self.body).render(fenced)
        how_to_reply = _frame().render(
            "reply",
            dimensions=self.dimensions,
            letters=LETTERS[: len(candidates)],
            low=_number(self.low),
            high=_number(self.high),
        )
        return [
            {"role": "system", "content": _frame().render("system", token=token)},
            {"role": "user", "content": f"{body}\n\n{how_to_reply}"},
        ]

    def once_more(self, problem: str) -> ChatMessage:
        """Write the message that requests a reply that can be read."""
        text = _frame().render("again", problem=problem, low=_number(self.low), high=_number(self.high))
        return {"role": "user", "content": text}

    def schema(self, candidates: int = 0) -> dict[str, Any]:
        """Give the JSON Schema of the reply: a number or "unknown" for each dimension, and the reason."""
        # `unknown` is the way out that every judge is offered.
        score = {"anyOf": [{"type": "number"}, {"type": "string", "enum": [UNKNOWN]}]}
        scores: dict[str, Any] = dict.fromkeys(self.names, score)
        if candidates:
            scores = {letter: _object(scores) for letter in LETTERS[:candidates]}
        return _object({**scores, RATIONALE: {"type": "string"}})

    def from_scale(self, score: float) -> float:
        """Give a judge's number as 0 to 1."""
        return (score - self.low) / (self.high - self.low)

    def _check(self, values: Mapping[str, str], candidates: Sequence[str]) -> None:
        names = [name for name in self.shows if not (self.candidates and name == self.output)]
        missing = [name for name in names if name not in values]
        unknown = [name for name in values if name not in names]
        if missing or unknown:
            given = ", ".join(values) or "none"
            raise ValueError(f"rubric {self.name} shows {', '.join(names)}; the values given are {given}")
        if self.candidates != bool(candidates) or len(candidates) == 1 or len(candidates) > len(LETTERS):
            wants = f"2 to {len(LETTERS)} candidates" if self.candidates else "no candidates"
            raise ValueError(f"rubric {self.name} takes {wants}, not {len(candidates)}")


@lru_cache(maxsize=256)
def _form(body: str) -> Form:
    return Form(body)


@cache
def _frame() -> Prompts:
    return Prompts(read_templates(PACKAGE, "frame"), {})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    names: Iterable[str] = properties
    return {
        "type": "object",
        "properties": dict(properties),
        # All keys required and no others allowed: what the strict mode of providers wants of a schema.
        "required": list(names),
        "additionalProperties": False,
    }


def _number(number: float) -> str:
    return f"{number:g}"


_PARTS = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Nothing has a silent default: a rubric states everything that its scores depend on.
_NEEDED = ("name", "version", "scale", "dimensions", "combine", "shows", "output")
_KEYS = (*_NEEDED, "candidates")
A_NAME = "a name of small letters, digits and _"


def read_rubric(text: str, where: str = "rubric") -> Rubric:
    """Read a rubric strictly; raises ProblemsFound with every problem, each with its line in ``where``."""
    # A rubric that was written on any system is the same rubric, with the same digest.
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    parts = _PARTS.match(text)
    if parts is None:
        expected = "--- on the first line, then YAML, then --- on a line of its own"
        raise ProblemsFound([Problem(where, 1, (), expected, _start(text))])
    # The empty line stands for the opening dashes, so that problems name the lines of the file.
    head = f"\n{parts[1]}"
    return _Reader(where, head, read_yaml(head, where)).rubric(text, parts.end())


@cache
def packaged_rubric(name: str) -> Rubric:
    """Give a rubric that ships with the core; raises ValueError with the names that there are.

    Rubrics of benchmarks and conftests are known to the registry only.
    """
    texts = read_templates(PACKAGE, "rubrics")
    if name not in texts:
        hint = did_you_mean(name, texts) or f"known: {', '.join(texts)}"
        raise ValueError(f"there is no rubric {name!r}; {hint}")
    return read_rubric(texts[name], f"{name}.jinja")


@cache
def read_rubric_file(file: Path) -> Rubric:
    """Read the rubric that is a file of a package's own; raises ProblemsFound."""
    return read_rubric(file.read_text(encoding="utf-8"), file.name)


class _Reader:
    """Reads one front matter, and collects what is wrong with it."""

    def __init__(self, where: str, head: str, front_matter: Any) -> None:
        self._where, self._head = where, head
        self._front_matter: Mapping[str, Any] = front_matter if isinstance(front_matter, dict) else {}
        self._problems: list[Problem] = []
        if not isinstance(front_matter, dict):
            self._wrong((), f"a map with {', '.join(_NEEDED)}", front_matter)

    def rubric(self, text: str, start: int) -> Rubric:
        """Make the rubric; raises ProblemsFound with all problems, in the file's order."""
        self._keys()
        low, high = self._scale()
        shows = self._texts("shows", "what the value is")
        questions = self._texts("dimensions", "what it asks")
        # A reply gives its reason under this key, beside the dimensions.
        if RATIONALE in questions:
            self._problem(("dimensions", RATIONALE), f"another name than {RATIONALE}", repr(RATIONALE))
        # A question may be written over several lines of YAML; the prompt has it on one.
        dimensions = tuple(Dimension(name, " ".join(str(says).split())) for name, says in questions.items())
        rubric = Rubric(
            name=self._text("name"),
            version=self._version(),
            dimensions=dimensions,
            low=low,
            high=high,
            combine=self._combine(low, high),
            shows=shows,
            output=self._output(shows),
            text=text,
            body=text[start:],
            candidates=self._candidates(),
        )
        self._check_body(rubric.body, text.count("\n", 0, start), shows)
        if self._problems:
            raise ProblemsFound(sorted(self._problems, key=lambda problem: problem.line or 0))
        return rubric

    def _keys(self) -> None:
        for key in self._front_matter:
            if key not in _KEYS:
                expected, hint = f"one of {', '.join(_KEYS)}", did_you_mean(key, _KEYS)
                self._problem((key,), expected, f"unknown key {key!r}", hint)
        for key in _NEEDED:
            if self._front_matter and key not in self._front_matter:
                self._problem((key,), f"all of {', '.join(_NEEDED)}", f"no key {key!r}")

    def _text(self, key: str) -> str:
        value = self._front_matter.get(key)
        if key in self._front_matter and not (isinstance(value, str) and _NAME.fullmatch(value)):
            self._wrong((key,), A_NAME, value)
        return str(value)

    def _version(self) -> str:
        value = self._front_matter.get("version")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if "version" in self._front_matter and not whole and not (isinstance(value, str) and value.strip()):
            self._wrong(("version",), "a text or a whole number", value)
        return str(value)

    def _scale(self) -> tuple[float, float]:
        scale = self._front_matter.get("scale", {"low": 0, "high": 1})
        if not isinstance(scale, dict) or set(scale) != {"low", "high"}:
            self._wrong(("scale",), "a map with low and high", scale)
            return 0.0, 1.0
        for key, value in scale.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._wrong(("scale", key), "a number", value)
                return 0.0, 1.0
        if scale["low"] >= scale["high"]:
            self._wrong(("scale", "high"), f"a number above {scale['low']}", scale["high"])
            return 0.0, 1.0
        return scale["low"], scale["high"]

    def _texts(self, key: str, what: str) -> Mapping[str, str]:
        texts = self._front_matter.get(key)
        if not isinstance(texts, dict) or not texts:
            if key in self._front_matter:
                self._wrong((key,), f"a map of names, each to {what}", texts)
            return {}
        for name, text in texts.items():
            if not _NAME.fullmatch(name):
                self._problem((key, name), A_NAME, repr(name))
            if not isinstance(text, str) or not text.strip():
                self._wrong((key, name), f"{what}, as text", text)
        return texts

    def _combine(self, low: float, high: float) -> Combine:
        ways = get_args(Combine)
        value = self._front_matter.get("combine", "mean")
        if value not in ways:
            self._wrong(("combine",), f"one of {', '.join(ways)}", value)
            return "mean"
        if value == "majority" and (high - low) % 1:
            expected = "mean or median on a scale that has no whole steps"
            self._problem(("combine",), expected, f"majority from {low} to {high}")
        combine: Combine = value
        return combine

    def _output(self, shows: Mapping[str, str]) -> str:
        value = self._front_matter.get("output")
        if "output" in self._front_matter and shows and value not in shows:
            self._wrong(("output",), f"one of {', '.join(shows)}", value)
        return str(value)

    def _candidates(self) -> bool:
        value = self._front_matter.get("candidates", False)
        if not isinstance(value, bool):
            self._wrong(("candidates",), "true or false", value)
        return value is True

    def _check_body(self, body: str, above: int, shows: Mapping[str, str]) -> None:
        """Check that the text, with ``above`` lines before it, writes all that is shown and nothing else."""
        try:
            form = Form(body)
        except InvalidForm as refused:
            expected = "text with values as {{ name }} and {% if name %}, nothing that changes them"
            self._problems.append(Problem(self._where, above + refused.line, (), expected, refused.found))
            return
        for name, line in form.names.items():
            if shows and name not in shows:
                expected, hint = f"one of {', '.join(shows)}", did_you_mean(name, shows)
                found = f"the unknown value {name!r}"
                self._problems.append(Problem(self._where, above + line, (), expected, found, hint))
        for name in shows:
            if name not in form.names:
                self._problem(("shows", name), f"{{{{ {name} }}}} in the text below", "a text without it")

    def _wrong(self, path: KeyPath, expected: str, value: object) -> None:
        from pytest_agenteval.tasks.validation import value_text

        self._problem(path, expected, value_text(value))

    def _problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> None:
        line = YamlLineIndex(self._head).line_of(path)
        self._problems.append(Problem(self._where, line, path, expected, found, hint))


def _start(text: str) -> str:
    first = text.partition("\n")[0]
    return f"{first[:60]!r} and no second ---" if first.strip() == "---" else repr(first[:60])
