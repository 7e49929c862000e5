"""Rubrics: the dimensions that judges score, the prompt made of them, and the files that hold them.

A rubric file is YAML between two lines of dashes, then the text that judges are given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from pytest_agenteval.chat.chat import ChatMessage
from pytest_agenteval.records.prompts import Form, InvalidForm, Prompts, read_templates
from pytest_agenteval.records.record import FrozenValue, same_fields
from pytest_agenteval.tasks.documents import ParsedDocument, short_path
from pytest_agenteval.tasks.task_spec import Named, NamedBesideOthers, Spec, check_named, expects
from pytest_agenteval.tasks.validation import read_spec
from pytest_agenteval.tasks.yaml_reading import read_yaml
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean
from pytest_agenteval.text.json_values import compact_json, json_digest

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
    """One thing that a rubric scores, with its question."""

    name: str
    says: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """The question, dimensions and scale of judges, made by ``read_rubric``.

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
A_NAME = "a name of small letters, digits and _"


class ScaleSpec(Spec, frozen=True, kw_only=True):
    """The lowest and the highest score that a judge can give."""

    low: Annotated[int | float, expects("a number")]
    high: Annotated[int | float, expects("a number")]


class RubricSpec(Spec, frozen=True, kw_only=True):
    """The front matter of a rubric: nothing that its scores depend on has a silent default."""

    name: Annotated[str, Meta(pattern=rf"^{_NAME.pattern}\Z"), expects(A_NAME)]
    version: Annotated[int | NamedBesideOthers, expects("a text or a whole number")]
    scale: Annotated[ScaleSpec, expects("a map with low and high")]
    dimensions: Annotated[
        Mapping[str, Annotated[Named, expects("what it asks, as text")]],
        Meta(min_length=1),
        expects("a map of names, each to what it asks"),
    ]
    combine: Annotated[Combine, expects(f"one of {', '.join(get_args(Combine))}")]
    shows: Annotated[
        Mapping[str, Annotated[Named, expects("what the value is, as text")]],
        Meta(min_length=1),
        expects("a map of names, each to what the value is"),
    ]
    output: Annotated[str, expects("the name of the shown value that is judged")]
    candidates: Annotated[bool, expects("true or false")] = False

    def __post_init__(self) -> None:
        check_named(self.version)


def read_rubric(text: str, where: str = "rubric") -> Rubric:
    """Read a rubric; raises ProblemsFound with every problem and its line."""
    # A rubric that was written on any system is the same rubric, with the same digest.
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    parts = _PARTS.match(text)
    if parts is None:
        expected = "--- on the first line, then YAML, then --- on a line of its own"
        raise ProblemsFound([Problem(where, 1, (), expected, _start(text))])
    # The empty line stands for the opening dashes, so that problems name the lines of the file.
    front = f"\n{parts[1]}"
    head, body = ParsedDocument(Path(where), front, read_yaml(front, where)), text[parts.end() :]
    spec, problems = None, list(_body_problems(body, text.count("\n", 0, parts.end()), head))
    try:
        spec = read_spec(RubricSpec, head)
        problems += _front_problems(spec, head)
    except ProblemsFound as wrong:
        problems += wrong.problems
    if problems or spec is None:
        raise ProblemsFound(sorted(problems, key=lambda problem: problem.line or 0))
    return Rubric(
        **same_fields(spec, ("name", "combine", "shows", "output", "candidates")),
        version=str(spec.version),
        # A question may be written over several lines of YAML; the prompt has it on one.
        dimensions=tuple(Dimension(name, " ".join(says.split())) for name, says in spec.dimensions.items()),
        low=spec.scale.low,
        high=spec.scale.high,
        text=text,
        body=body,
    )


_NAME_OR_PATH = re.compile(r"[\w./\\~-]*", re.ASCII)
_LIKE_A_FILE = re.compile(r"\.(jinja2?|j2|md|txt|ya?ml|json)\s*\Z", re.IGNORECASE)


def is_question(text: str) -> bool:
    """Whether a text asks something of a judge: it is neither like a rubric's name nor like a file's path."""
    return not (_NAME_OR_PATH.fullmatch(text.strip()) or _LIKE_A_FILE.search(text))


@lru_cache(maxsize=256)
def question_rubric(question: str) -> Rubric:
    """Make the rubric of one question about a reply, on a scale of 1 to 5; its text holds the question."""
    text = Path(__file__).with_name("question.jinja").read_text(encoding="utf-8")
    # A text of JSON is one of YAML too. The question ends up in the prompt as a value, never as a template.
    return read_rubric(text.replace("QUESTION", compact_json(" ".join(question.split())), 1))


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
    """Read a rubric file of a package; raises ProblemsFound."""
    return read_rubric(file.read_text(encoding="utf-8"), file.name)


def _front_problems(spec: RubricSpec, head: ParsedDocument) -> Iterator[Problem]:
    """Find what is wrong with a front matter whose values are of the right kinds."""
    low, high = spec.scale.low, spec.scale.high
    for key, names in (("dimensions", spec.dimensions), ("shows", spec.shows)):
        for name in names:
            if not _NAME.fullmatch(name):
                yield _problem(head, (key, name), A_NAME, repr(name))
    # A reply gives its reason under this key, beside the dimensions.
    if RATIONALE in spec.dimensions:
        expected = f"another name than {RATIONALE}"
        yield _problem(head, ("dimensions", RATIONALE), expected, repr(RATIONALE))
    if low >= high:
        yield _problem(head, ("scale", "high"), f"a number above {low:g}", f"{high:g}")
    if spec.combine == "majority" and (high - low) % 1:
        expected = "mean or median on a scale that has no whole steps"
        yield _problem(head, ("combine",), expected, f"majority from {low:g} to {high:g}")
    if spec.output not in spec.shows:
        yield _problem(head, ("output",), f"one of {', '.join(spec.shows)}", repr(spec.output))


def _body_problems(body: str, above: int, head: ParsedDocument) -> Iterator[Problem]:
    """Check that the text, with ``above`` lines before it, writes all that is shown and nothing else."""
    file, shows = short_path(head.path), head.value.get("shows") if isinstance(head.value, dict) else None
    try:
        form = Form(body)
    except InvalidForm as refused:
        expected = "text with values as {{ name }} and {% if name %}, nothing that changes them"
        yield Problem(file, above + refused.line, (), expected, refused.found)
        return
    if not isinstance(shows, dict) or not shows:
        return
    for name, line in form.names.items():
        if name not in shows:
            expected, hint = f"one of {', '.join(shows)}", did_you_mean(name, shows)
            yield Problem(file, above + line, (), expected, f"the unknown value {name!r}", hint)
    for name in shows:
        if name not in form.names:
            yield _problem(head, ("shows", name), f"{{{{ {name} }}}} in the text below", "a text without it")


def _problem(head: ParsedDocument, path: KeyPath, expected: str, found: str) -> Problem:
    return Problem(short_path(head.path), head.line_of(path), path, expected, found)


def _start(text: str) -> str:
    first = text.partition("\n")[0]
    return f"{first[:60]!r} and no second ---" if first.strip() == "---" else repr(first[:60])
