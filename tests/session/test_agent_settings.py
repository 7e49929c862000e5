"""Settings of agents and graders: what they do not take is told with file, line and key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, dataclasses, field_validator

from pytest_agenteval.registry import installed
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.registration_check import find_config_problems, plainly_takes
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.text.json_values import canonical_json
from pytest_agenteval.tools.toolsets import tool_of
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

AGENTS = '''
from dataclasses import dataclass
from typing import Literal

import pydantic


class Typed:
    def __init__(self, *, tone: Literal["dry", "wet"] = "dry", size: "int" = 3):
        self.size = size + 1

    def run(self, task_input, ctx):
        return "Mina"


class Inherits(Typed):
    def __init__(self, **settings):
        super().__init__(**settings)


class Placed:
    def __init__(self, tone, /):
        """By its place only."""

    run = Typed.run


class Model(pydantic.BaseModel):
    size: int = pydantic.Field(default=3, ge=1)

    @pydantic.field_validator("size")
    def is_odd(cls, value):
        if value % 2 == 0:
            raise ValueError("sizes are odd")
        return value

    def run(self, question):
        return "Mina"


@dataclass
class Data:
    size: int = 3

    def run(self, question):
        return "Mina"


class Made:
    def __new__(cls, tone="dry"):
        return object.__new__(cls)

    def run(self, question):
        return "Mina"


class Called:
    def __init__(self, tone="dry"):
        """Takes a setting."""

    def __call__(self, question, size=1):
        return "Mina"


class Static:
    @staticmethod
    def run(question):
        return "Mina"


class AnyOf:
    def __init__(self, **settings):
        if settings.keys() - {"tone"}:
            raise TypeError("only tone")

    def run(self, question):
        return "Mina"


class Idle:
    """Does nothing."""


def makes(size: int = 3):
    return Typed(size=size)


def acts(question, tone, size: int = 3):
    return "Mina"


def placed(question, /, tone="dry"):
    return "Mina"


def takes_any(question, **settings):
    return "Mina"


def pytest_agenteval_register(registry):
    for agent in (Typed, Inherits, Placed, makes):
        registry.agent(agent.__name__.lower(), agent)
    registry.agent("model", type("Acting", (Model,), {"run": Typed.run}))
'''

REFUSED = [
    ("typed", "{tune: dry}", "settings.tune", "one of size, tone", "unknown key 'tune'", "'tone'?"),
    ("makes", "{tune: 3.5}", "settings.tune", "one of size", "unknown key 'tune'"),
    ("placed", "{tone: dry}", "agent", "an agent: a class", "Placed, whose tone cannot be given by name"),
    (
        "{call: bots:acts}",
        "{}",
        "agent",
        "parameters that are filled by their names: question",
        "bots:acts(tone)",
    ),
    ("{call: bots:takes_any}", "{question: x}", "settings.question", "no setting: ", "'question'"),
    ("{call: bots:Data}", "{size: big}", "settings.size", "a whole number", "'big' (text)"),
    ("{call: bots:Made}", "{tune: x}", "settings.tune", "one of tone", "unknown key 'tune'", "'tone'?"),
    ("{call: bots:Idle}", "{}", "agent", "package.module:name of the agent", "bots:Idle is <class"),
]
"""What the suite says of its agent, its settings, the key, and what is expected and found there."""

TAKEN = [
    ("typed", "{size: 4, tone: wet}"),
    ("model", "{size: 1}"),
    ("{call: bots:Model}", "{size: 5}"),
    ("{call: bots:Made}", "{tone: wet}"),
    ("{call: bots:Called}", "{tone: wet, size: 2}"),
    ("{call: bots:Static}", "{}"),
    ("{call: bots:AnyOf}", "{tone: wet}"),
    ("{call: bots:placed}", "{tone: wet}"),
    ("{call: bots:takes_any}", "{anything: 1}"),
]
TASK = "id: t\ninput: {content: x}\ngraders: [{name: answer_contains, config: {text: Mina}}]\n"


def a_suite(name: str, agent: str, of_suite: str = "", of_task: str = "") -> dict[str, str]:
    """Give a suite of one task, with lines of the suite's and of the task's."""
    suite = f"name: {name}\nkind: capability\nagent: {agent}\n{of_suite}"
    return {f"evals/{name}/suite.yaml": suite, f"evals/{name}/t.yaml": f"{TASK}{of_task}"}


def test_what_is_not_taken_is_told_when_tasks_are_collected(pytester: pytest.Pytester) -> None:
    """Of classes, models, dataclasses, factories and functions, registered and named by ``call``."""
    write(pytester.path, {"conftest.py": "from bots import *\n", "bots.py": AGENTS})
    for number, (agent, settings, *_) in enumerate(REFUSED):
        write(pytester.path, a_suite(f"s{number:02}", agent, of_task=f"settings: {settings}\n"))
    pytester.syspathinsert()

    result = run(pytester, "evals")

    result.assert_outcomes(errors=len(REFUSED))
    screen = result.stdout.str().partition("short test summary")[0]
    parts = re.split(r"^(?=evals/)", screen, flags=re.MULTILINE)[1:]
    for number, ((_, _, key, expected, found, *hint), part) in enumerate(zip(REFUSED, parts, strict=True)):
        place, line, key_there = re.match(r"(\S+):(\d+): (\S+)\n", part).groups()
        file, at = ("suite.yaml", "3") if key == "agent" else ("t.yaml", "4")
        assert (place, line, key_there) == (f"evals/s{number:02}/{file}", at, key)
        assert f"\n  expected: {expected}" in part
        assert f"\n  found:    {found}" in part
        assert all(f"did you mean {each}" in part for each in hint)
    assert "Traceback" not in screen


def test_what_is_taken_reaches_the_agent(pytester: pytest.Pytester) -> None:
    """By name or by place, in the constructor or in the call, whatever is the agent."""
    write(pytester.path, {"conftest.py": "from bots import *\n", "bots.py": AGENTS})
    for number, (agent, settings) in enumerate(TAKEN):
        write(pytester.path, a_suite(f"s{number:02}", agent, of_task=f"settings: {settings}\n"))
    pytester.syspathinsert()
    run(pytester, "evals").assert_outcomes(passed=len(TAKEN))


def test_what_a_constructor_refuses_is_told_without_a_traceback(pytester: pytest.Pytester) -> None:
    """Nobody knows it before a trial begins; it is told where the settings stand, in task or suite."""
    write(pytester.path, {"conftest.py": "from bots import *\n", "bots.py": AGENTS})
    write(pytester.path, a_suite("a", "inherits", of_task="settings:\n  tune: dry\n"))
    write(pytester.path, a_suite("b", "{call: bots:AnyOf}", of_suite="settings: {tune: dry}\n"))
    write(pytester.path, a_suite("c", "inherits", of_suite="defaults:\n  settings: {size: big}\n"))
    write(pytester.path, a_suite("d", "model", of_task="settings: {size: 2}\n"))
    pytester.syspathinsert()

    result = run(pytester, "evals")

    result.assert_outcomes(errors=4)
    told = [
        "file_problem: evals/a/t.yaml:4: settings",
        "  expected: settings that the agent 'inherits' can be made with",
        """  found:    {"tune":"dry"}, and it raised TypeError: *argument 'tune' (*bots.py:*)""",
        "file_problem: evals/b/suite.yaml:4: settings",
        """  found:    {"tune":"dry"}, and it raised TypeError: only tone (*bots.py:*)""",
        "file_problem: evals/c/suite.yaml:5: defaults.settings",
        """  found:    {"size":"big"}, and it raised TypeError: *""",
        "file_problem: evals/d/t.yaml:4: settings",
        """  found:    {"size":2}, and it raised ValidationError: *""",
    ]
    result.stdout.fnmatch_lines(told)
    result.stdout.no_fnmatch_line("*Traceback*")


@dataclass(frozen=True)
class Inner:
    """A setting of several parts."""

    a: int


@dataclass(frozen=True)
class Settings:
    """Hints of every kind."""

    word: str = ""
    count: int = 0
    share: float = 0.0
    flag: bool = False
    anything: Any = None
    one_of: Literal["a", 1, None] = None
    words: tuple[str, ...] = ()
    pair: tuple[str, int] = ("", 0)
    either: str | list[str] | None = None
    number: int | float = 0
    table: Mapping[str, int | None] = field(default_factory=dict)
    nested: Sequence[dict[str, list[float]]] = ()
    bare: list = field(default_factory=list)  # type: ignore[type-arg]  # as people write it
    bounded: Annotated[float, Field(gt=0)] = 1.0
    all_bounded: list[Annotated[int, Field(gt=0)]] = field(default_factory=list)
    numbers: dict[int, str] = field(default_factory=dict)
    chosen: set[str] = field(default_factory=set)
    inner: Inner = Inner(0)
    function: Callable[[], None] | None = None


VALUES = [
    None, True, False, 0, 1, -1, 2.0, 0.5, 2**70, "", "a", "1", [], ["a"], ["a", 1], [1, "a"], [1.0], [-1],
    {}, {"a": 1}, {"a": None}, {"a": True}, {"1": "a"}, [{"a": [1, 2.5]}], [{"a": ["x"]}],
]  # fmt: skip


@pytest.mark.parametrize("name", [one.name for one in fields(Settings)])
def test_what_is_plainly_taken_pydantic_takes(name: str) -> None:
    """No value gets by unseen that pydantic, which explains what is wrong, would refuse."""
    adapter = TypeAdapter(Settings)
    for value in VALUES:
        try:
            adapter.validate_json(canonical_json({name: value}), strict=True)
            right = True
        except ValidationError:
            right = False
        assert right or not plainly_takes(Settings, {name: value}), value


@dataclass
class Bounded:
    """A default that is pydantic's, which a dataclass knows nothing of."""

    count: int = Field(default=1, gt=0)


@dataclass(slots=True)
class Needed:
    """Such a default where none is meant."""

    count: int = Field(gt=0)


@dataclass
class Described:
    """Bounds as the standard library lets them be said."""

    count: int = field(default=1, metadata={"gt": 0})


@dataclass
class Validated:
    """A method that pydantic calls."""

    count: int = 1

    @field_validator("count")
    @classmethod
    def above_zero(cls, count: int) -> int:
        """Refuse others."""
        if count <= 0:
            raise ValueError("above 0")
        return count


@dataclass
class Inherited(Validated):
    """A method that a base class has."""


@dataclass
class Configured:
    """A configuration that pydantic reads."""

    __pydantic_config__ = ConfigDict(str_min_length=2)
    word: str = "ab"


@dataclass
class Shaped:
    """A class that says itself how it is read."""

    count: int = 1

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        schema = handler(source)
        schema["schema"]["fields"][0]["schema"]["schema"]["gt"] = 0
        return schema


@dataclasses.dataclass
class OfPydantic:
    """A dataclass of pydantic's own."""

    count: int = Field(default=1, gt=0)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Bounded, {"count": 0}),
        (Needed, {"count": 0}),
        (Needed, {}),
        (Described, {"count": 0}),
        (Validated, {"count": 0}),
        (Inherited, {"count": 0}),
        (Configured, {"word": "a"}),
        (Shaped, {"count": 0}),
        (OfPydantic, {"count": 0}),
    ],
)
def test_what_a_class_says_to_pydantic_holds(kind: type, wrong: dict[str, Any]) -> None:
    """Bounds are no less than hints, wherever they are said."""
    name = fields(kind)[0].name

    assert [problem.path for problem in find_config_problems("g", kind, wrong)] == [(name,)]
    assert find_config_problems("g", kind, {name: "abc" if name == "word" else 1}) == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"word": "a", "count": 1, "share": 1},
        {"either": ["a"], "table": {"a": 1}},
        {"one_of": "a", "pair": ["a", 1]},
    ],
)
def test_plain_settings_need_no_second_look(settings: dict[str, Any]) -> None:
    """Most graders' settings are texts, numbers, lists and maps."""
    assert plainly_takes(Settings, settings)


def test_what_a_class_refuses_itself_is_a_problem_all_the_same() -> None:
    """A class that raises is asked again, and its words are told."""

    @dataclass(frozen=True)
    class Even:
        count: int

        def __post_init__(self) -> None:
            if self.count % 2:
                raise ValueError("an even count")

    assert find_config_problems("even", Even, {"count": 2}) == ()
    assert [problem.found for problem in find_config_problems("even", Even, {"count": 1})] == [
        "an even count"
    ]
    assert [problem.found for problem in find_config_problems("even", Even, {"count": True})] == [
        "true (true or false)"
    ]


def test_a_value_that_no_branch_of_a_union_takes_is_told_once() -> None:
    """By what the first branch expects."""
    (problem,) = find_config_problems("g", Settings, {"either": 5})
    assert (problem.path, problem.expected, problem.found) == (("either",), "a text", "5 (number)")


def search_mail(text: str) -> str:
    """Search."""
    return text


def _task(id: str, count: Any) -> dict[str, Any]:
    graders = [{"name": "answer_json", "config": {"values": {"count": count}}}]
    return {"id": id, "input": {"content": "Count."}, "graders": graders}


def test_tasks_share_graders_that_are_the_same(tmp_path: Path) -> None:
    """True is not 1 to a grader: what is equal to Python alone is not shared."""
    registry = Registry(lambda registry: None)
    installed.pytest_agenteval_register(registry)
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([_task("a", 1), _task("b", 1), _task("c", True)]))
    planned = Planner(registry, tmp_path).tasks(file, named=True)
    first, second, third = (task.graders for task, _ in planned)
    assert first is second
    assert first[0].config["values"]["count"] is not True
    assert third[0].config["values"]["count"] is True


def test_a_misspelt_tool_is_told_though_it_was_taken_for_another_before(tmp_path: Path) -> None:
    """A conftest further down may register what a task of an earlier folder named, and nearly."""
    registry = Registry(lambda registry: None)
    installed.pytest_agenteval_register(registry)
    planner = Planner(registry, tmp_path)
    graders = [{"name": "tool_called", "config": {"tools": ["serch_mail"]}}]
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for file in (first, second):
        file.write_text(json.dumps({"id": file.stem, "input": {"content": "Look."}, "graders": graders}))

    assert len(planner.tasks(first, named=True)) == 1
    registry.tool(tool_of(search_mail))
    with pytest.raises(ProblemsFound, match="search_mail"):
        planner.tasks(second, named=True)


def test_tasks_with_the_same_group_share_its_graders(tmp_path: Path) -> None:
    """A group is no grader, and nobody can ask it which tools it names."""
    registry = Registry(lambda registry: None)
    installed.pytest_agenteval_register(registry)
    registry.grader_group("both", [("answer_contains", "one"), ("answer_contains", "two")])
    graders = [{"name": "both", "config": {"text": "a"}}]
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([{"id": id, "input": {"content": "?"}, "graders": graders} for id in "ab"]))

    first, second = (task.graders for task, _ in Planner(registry, tmp_path).tasks(file, named=True))

    assert first is second
    assert [grader.label for grader in first] == ["one", "two"]
