"""README and docs/ are true: their examples run, their options exist, their tables name what there is."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cli.main import main
from pytest_agenteval.engine.grading import UNGRADED
from pytest_agenteval.records.evidence import CRASH, UNDECIDED, Answer, Check, Evidence, Grade, Tree
from pytest_agenteval.records.factories import accepted_settings
from pytest_agenteval.records.prompts import read_templates
from pytest_agenteval.records.transcript import Message, ToolCall
from pytest_agenteval.records.trial import Ending
from pytest_agenteval.registry.installed import pytest_agenteval_register
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import CAUSES, ProblemsFound, TrialBroken
from tests.documentation import ENGLISH_PAGES, README, TRANSLATED_PAGES
from tests.extended.performance.__main__ import parser as performance_options
from tests.suites import only_our_plugin

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
DOCS = ENGLISH_PAGES
OURS = tuple(file for file in DOCS if not file.name.startswith("ko-"))
"""Pages that name no options but ours."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w…-])")
MOST_WORDS = 40_000
UNNAMED = {"jinja": "evals/letters/rubrics/polite.jinja", "jsonl": "evals/letters/polite.jsonl"}
"""Files whose first line cannot say their name."""

FOREIGN = frozenset(
    {"--junitxml", "--sandbox", "--permission-mode"}
    | {"--enable-auto-tool-choice", "--tool-call-parser", "--enforce-eager"}
    | {"--jinja", "--model-id", "--model-path", "--no-deps"}
    | {"--head", "--port", "--address", "--num-cpus", "--generate"}
)
"""Options of pytest's and pip's own, of coding agents, of model servers and of Ray that pages speak of."""

MEMEX = frozenset(
    {
        "agent_name",
        "require_reference_solution",
        "requireReferenceSolution",
        "sample_transcript",
        "sampleTranscript",
        "source",
        "task_pass_threshold",
        "taskPassThreshold",
        "timeout_seconds",
    }
)
"""Keys that are taken as Memex's files have them; ours have other names."""

"""Where graders lie that belong to no benchmark."""

JUDGE = '''
import json

from pytest_agenteval.chat.chat import Reply


class KnownJudge:
    """Gives the examples of the page the scores that people gave them."""

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        asked = str(messages)
        tone = 1 if "nobody cares" in asked else 2 if "Jun. Picnic." in asked else 5
        return Reply(json.dumps({"tone": tone, "rationale": "as people said"}))


def pytest_agenteval_register(registry):
    registry.model("known", lambda model, plan: KnownJudge())
    registry.agent("looping", run)
'''


def _text(*files: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def _examples(file: Path) -> dict[str, str]:
    """Give the files that a page shows, by the path in their first line."""
    found = {}
    for language, text in BLOCK.findall(file.read_text(encoding="utf-8")):
        named = re.match(r"# ([\w/.-]+\.(?:yaml|py))\n", text)
        if path := named[1] if named else UNNAMED.get(language, ""):
            found[path] = text
    return found


def _write(root: Path, examples: dict[str, str]) -> None:
    for path, text in examples.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def _commands(file: Path) -> list[list[str]]:
    """Give each command line of ours that a page shows, without its remark."""
    lines = re.findall(r"^    ((?:pytest|agenteval) .*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def test_what_the_pages_show_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rubric, its task and its calibration are read as they stand, and judged; so are the other tasks."""
    only_our_plugin(monkeypatch)
    for page in OURS:
        _write(pytester.path, {path: text for path, text in _examples(page).items() if path != "conftest.py"})
    (loop,) = re.findall(r"^```python\n(async def run.*?)^```$", _text(*OURS), re.MULTILINE | re.DOTALL)
    for name in ("letters", "trips", "shop"):
        tools = "agent: looping\ntools: [tools.yaml, tools.py]\n" * (name == "trips")
        (pytester.path / "evals" / name / "suite.yaml").write_text(
            f"name: {name}\nkind: capability\n{tools}", encoding="utf-8"
        )
    _write(
        pytester.path,
        {
            "conftest.py": loop + JUDGE,
            "fixtures/shop/starter/orders.csv": "mina,paid\n",
            "evals/shop/refund/workspace/notes/mina.md": "A loyal customer.\n",
        },
    )

    result = pytester.runpytest("evals", "-v", "--agent-model=oracle,nop", "--agent-judge=known")

    result.stdout.fnmatch_lines(
        [
            "*letters/invitation.yaml::invitation*oracle-1* PASSED 1.00*",
            "*letters/polite.calibration.yaml::polite*known* PASSED*",
            "*manners/window.yaml::window*oracle-1* PASSED 1.00*",
            "*shop/refund/task.yaml::refund*nop-1* MISSED 0.50*",
            "*trips/speed.yaml::speed*oracle-1* PASSED 1.00*",
            "*2 thresholds reached*",
        ]
    )


def _latest(folder: Path) -> Path:
    return (folder / ".agenteval" / "runs" / "latest").resolve()


def test_every_option_and_verb_that_is_named_exists(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option of README or docs stands in ``pytest --help``, or in the help of the verb it is said to."""
    only_our_plugin(monkeypatch)
    known = set(OPTION.findall(pytester.runpytest("--help").stdout.str())) | FOREIGN
    known |= set(OPTION.findall(performance_options().format_help()))
    verbs = {
        command[1] for file in (README, *DOCS) for command in _commands(file) if command[0] == "agenteval"
    }
    verbs |= set(re.findall(r"`agenteval ([\w-]+)", _text(README, *DOCS)))
    imports = {("import", "memex"), ("import", "ko-agentbench")}
    for words in {(verb,) for verb in verbs} | imports:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert ended.value.code == 0, words
        known |= set(OPTION.findall(capsys.readouterr().out))

    named = set(OPTION.findall(_text(README, *OURS)))
    named |= {option for option in OPTION.findall(_text(*DOCS)) if option.startswith("--agent-")}
    assert len(named) > 10
    assert named - known == set()


def test_readme_and_docs_have_at_most_40_000_words() -> None:
    """As ``wc -w`` counts, other languages apart: whoever adds a page says where it can be shorter."""
    words = {page.name: len(_text(page).split()) for page in (README, *DOCS)}
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda each: -each[1])[:8]


def test_links_lead_somewhere() -> None:
    """Every relative link of README and docs is a file of the project; every page can be come to."""
    linked = set()
    for file in (README, *DOCS, *TRANSLATED_PAGES):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", _text(file)):
            if "://" not in target:
                path = (file.parent / target).resolve()
                assert path.is_file(), (file.name, target)
                linked.add(path)
    assert set(DOCS) - linked == set()


def test_every_key_of_a_task_and_a_suite_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever key ``agenteval schema`` prints stands in README or docs, and what ``settings.tools`` does."""
    keys = {"settings.tools"}
    for kind in ("task", "suite"):
        assert main(["schema", kind]) == 0
        schema = json.loads(capsys.readouterr().out)
        keys |= {key for part in schema["$defs"].values() for key in part.get("properties", ())}
    explained = set(re.findall(r"[\w.]+(?=[`:])", _text(README, *DOCS)))
    assert keys - explained - MEMEX == set()


def _rows(page: str, heading: str) -> set[str]:
    """Give what the first column of a table names."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    return {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize("kind", [AgentContext, Evidence, Grade, Check, Answer, ToolCall, Message, Tree])
def test_the_tables_name_every_attribute(kind: type) -> None:
    """What a newcomer may write after ``ctx.``, ``evidence.`` and the like, all of it and nothing else."""
    heading = {AgentContext: "`ctx`", Evidence: "`evidence`"}.get(kind, f"`{kind.__name__}`")
    properties = {name for name, value in vars(kind).items() if isinstance(value, property)}
    inherited = {"notes"} if kind is Evidence else set()
    methods = {"text", "digest"} if kind is Tree else set()
    public = {each.name for each in fields(kind)} | properties | inherited | methods
    assert _rows("reference/graders.md", heading) == public


def test_the_page_on_graders_says_what_they_may_return() -> None:
    """Where a grader is explained, so is what becomes a grade by itself, and what its crash means."""
    page = _text(ROOT / "docs" / "guides" / "graders.md")
    (paragraph,) = (part for part in page.split("\n\n") if "returns a `Grade`; " in part)
    for word in ("`True` and `False` are 1 and 0", "a number from 0 to 1 is the score", "`grader_crash`"):
        assert word in " ".join(paragraph.split())


def test_the_end_states_that_our_agents_tell_are_listed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page on end states has every key that an agent of one's own may report, and no other."""
    only_our_plugin(monkeypatch)
    graders = "[{name: answer_contains, config: {text: x}}]"
    one = f"id: walk\ninput: {{content: Walked the dyke.}}\ngraders: {graders}\n"
    for agent in ("card", "pkm"):
        suite = f"name: {agent}s\nagent: {agent}\nkind: capability\n"
        _write(pytester.path, {f"evals/{agent}/suite.yaml": suite, f"evals/{agent}/walk.yaml": one})

    pytester.runpytest("evals", "--agent-model=nop")

    stored = load_run(_latest(pytester.path))
    states = [set(stored.trial(entry).outcome.answer.state) for entry in stored.entries]
    assert len(states) == 2
    # `file_contents` is read from the workspace.
    assert _rows("benchmarks/memex-graders.md", "key") == set.union(*states) | {"file_contents"}


def test_every_cause_of_an_error_is_explained() -> None:
    """Whatever word an ERROR begins with is one of a closed list that docs/concepts/trials.md explains."""
    for module in re.findall(r"^(\S+)\.py:", _modules_with_causes(), re.MULTILINE):
        __import__(module)
    classes = [ProblemsFound, TrialBroken]
    for kind in classes:
        classes += [each for each in kind.__subclasses__() if each.__module__.startswith("pytest_agenteval.")]
    causes = {each.cause for each in classes} | {CRASH, UNGRADED, "crash", "unwritable"}
    assert causes == CAUSES.keys()
    assert _meanings("concepts/trials.md", "cause") == CAUSES


def test_every_reason_of_an_undecided_grade_is_explained() -> None:
    """And every ending: docs/concepts/trials.md says of each what the code says of it."""
    assert _meanings("concepts/trials.md", "reason") == UNDECIDED
    assert _rows("concepts/trials.md", "ending") == set(get_args(Ending))


def _meanings(page: str, heading: str) -> dict[str, str]:
    """Give the first two columns of a page's table: a word, and what it means."""
    table = _text(ROOT / "docs" / page).partition(f"| {heading} |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .*\|$", table, re.MULTILINE))


def _modules_with_causes() -> str:
    """Name every module that says the cause of a class of errors, so that all of them are known."""
    source = ROOT / "src"
    files = [file for file in source.rglob("*.py") if re.search(r"^    cause = ", _text(file), re.MULTILINE)]
    return "\n".join(f"{'.'.join(file.relative_to(source).with_suffix('').parts)}.py:" for file in files)


def test_the_table_of_graders_is_true() -> None:
    """Every grader of no benchmark stands in its reference, each with all of its settings and no other."""
    page = _text(ROOT / "docs" / "reference" / "graders.md")
    (table,) = re.findall(r"^\| name \| settings \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    general = Registry()
    pytest_agenteval_register(general)
    named = set()
    for row in table.splitlines():
        names, meanings = (set(re.findall(r"`(\w+)", cell)) for cell in row.split("|")[1:3])
        taken = {name for grader in names for name in _settings_of(general.grader_factory(grader))}
        assert taken == meanings - {"every", "first", "last"} - ({"any"} - taken), names
        named |= names
    assert named == set(general.graders)


def _settings_of(factory: object) -> set[str]:
    found = accepted_settings(factory)
    assert found is not None
    return set(found[0])


def test_prompts_are_listed_by_their_names() -> None:
    """The prompts of our agents in docs/reference/agents.md are the files that they have."""
    text = (ROOT / "docs" / "reference" / "agents.md").read_text(encoding="utf-8")
    for agent in ("card", "pkm"):
        (row,) = re.findall(rf"^\| `{agent}` \| (.*) \|$", text, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row)) == set(
            read_templates(f"pytest_agenteval.benchmarks.memex.{agent}_agent")
        )
