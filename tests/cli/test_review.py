"""``agenteval review``: a person's labels of a run's trials, which calibrate reads as they are."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.calibration.label_file import LabelFile, PersonLabels
from pytest_agenteval.calibration.labels import read_labels
from pytest_agenteval.cli.main import main
from pytest_agenteval.cli.review import Review
from pytest_agenteval.graders.judge.rubric import Rubric, read_rubric
from pytest_agenteval.loop.review_pool import PlannedTasks, ReviewPool, chosen_trials, review_pool
from pytest_agenteval.store.notes import NOTES, Note, read_notes
from pytest_agenteval.store.run_folder import LATEST, find_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine
from pytest_agenteval.text.json_values import json_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.cli.conftest import Said
from tests.forked_workers import run_python
from tests.journals import write_note
from tests.suites import only_our_plugin, task, write

if os.name == "posix":
    from tests.terminals import PytestOnTerminal

COMMAND = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
LABELS = Path("evals/letters/labels/tidy.jsonl")
PAINT = "\x1b[41m painted \u202e"
RUBRIC = """---
name: tidy
version: 1
scale: {low: 1, high: 5}
dimensions:
  order: "is it in order? 5: all of it"
  tone: "is it kind? 5: very"
combine: mean
shows: {task: what was asked, answer: the reply}
output: answer
---
{{ task }}

{{ answer }}
"""
# A judge that says of each answer what the answer says itself: "order 4 tone 2".
CONFTEST = """
import json, re
from pytest_agenteval.chat.chat import Reply

class Judge:
    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        order, tone = re.search(r"order (\\d) tone (\\d)", messages[-1]["content"]).groups()
        return Reply(json.dumps({"order": int(order), "tone": int(tone), "rationale": "as it says"}))

def pytest_agenteval_register(registry):
    registry.model("perfect", lambda model, plan: Judge())
"""
GRADER = {"name": "judge", "label": "polite", "config": {"rubric": "tidy.jinja"}}


def letter(id: str, says: str, bucket: str = "plain", **more: Any) -> dict[str, Any]:
    """Give a task whose answer says what it is worth."""
    graders = {"graders": [GRADER], "metadata": {"failure_bucket": bucket}}
    return task(id, says=says, **{"input": {"content": f"Write {bucket}."}, **graders, **more})


TASKS = [
    letter("one", "order 4 tone 2"),
    letter("two", "order 1 tone 5"),
    letter("three", f"order 5 tone 5 {PAINT}", "hostile"),
    letter("four", "order 3 tone 4", "long", input={"content": "line of it\n" * 60}),
    letter("same", "order 4 tone 2"),
    letter("silent", ""),
    letter("unseen", "order 2 tone 2 KEPTBACK", split="held_out"),
]
WORTH = {"one": (4, 2), "two": (1, 5), "three": (5, 5), "four": (3, 4)}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one run that a judge has graded, made once for all tests; held-out tasks are in it."""
    root = tmp_path_factory.mktemp("letters")
    suite = "name: letters\nkind: capability\ndefaults: {model: scripted}\n"
    write(root, {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\n"})
    files = {"suite.yaml": suite, "tidy.jinja": RUBRIC, "tasks.json": TASKS}
    write(root, {f"evals/letters/{name}": content for name, content in files.items()})
    options = ("-p", "agenteval", "-q", "--agent-judge=perfect", "--agent-split=all")
    with pytest.MonkeyPatch.context() as patch:
        only_our_plugin(patch)
        done = run_python("-m", "pytest", "evals", *options, cwd=root)
    assert "7 " in done.stdout, done.stdout + done.stderr
    return root


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, without labels of any test before."""
    only_our_plugin(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(project)
    shutil.rmtree(LABELS.parent, ignore_errors=True)
    for notes in project.glob(f".agenteval/runs/2*/{NOTES}"):
        notes.unlink()
    return project


class Person:
    """A person with their answers, who notes what they see and, at each question, what is on disk."""

    width = 80

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = iter(answers)
        self.seen: list[str] = []
        self.on_disk: list[int] = []

    def show(self, lines: Iterable[StyledLine]) -> None:
        """Take note of lines."""
        self.seen += [line.text for line in lines]

    page = show

    def ask(self, prompt: str) -> str | None:
        """Give the next answer."""
        self.seen.append(prompt)
        self.on_disk.append(sum(len(line["scores"]) for line in lines()) if LABELS.exists() else 0)
        return next(self._answers, None)

    @property
    def tasks(self) -> list[str]:
        """The tasks that were shown, in their order."""
        return asked("\n".join(self.seen))


@pytest.fixture(scope="module")
def tasks(project: Path) -> PlannedTasks:
    """The tasks of the run with what their conftest registers, for which a pytest is started once."""
    with pytest.MonkeyPatch.context() as patch:
        only_our_plugin(patch)
        patch.chdir(project)
        run = load_run(find_run(project / ".agenteval/runs", LATEST))
        return PlannedTasks(run, run.entries)


@pytest.fixture(scope="module")
def pool(project: Path, tasks: PlannedTasks) -> ReviewPool:
    """What can be labelled of the run, found once for all tests that only label."""
    run = load_run(find_run(project / ".agenteval/runs", LATEST))
    return review_pool(run, run.entries, tasks, "")


@pytest.fixture
def typed(
    here: Path, tasks: PlannedTasks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Give the command with these answers piped into it."""
    monkeypatch.setattr("pytest_agenteval.loop.review_pool.load_registry", lambda *_: tasks.registry)

    def run(answers: Sequence[str], *options: str) -> Said:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
        status = main(["review", *options])
        return Said(status, *capsys.readouterr())

    return run


@pytest.fixture
def sit(here: Path, pool: ReviewPool) -> Any:
    """Let a person label some of the run's trials."""

    def sit(
        answers: Sequence[str],
        *tasks: str,
        seed: int = 0,
        scale: tuple[float, float] = (1, 5),
        blind: bool = True,
    ) -> Person:
        run = load_run(find_run(here / ".agenteval/runs", LATEST))
        meant = [trial for trial in pool.trials if not tasks or trial.entry.key.task in tasks]
        labels = LabelFile(LABELS, pool.rubric, scale)
        person = Person(answers)
        trials = chosen_trials(meant, (), None, seed)
        Review(pool.rubric, trials, labels, run, blind).run(person)
        return person

    return sit


def lines(path: Path = LABELS) -> list[dict[str, Any]]:
    """Give the lines of a file of labels."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def asked(text: str) -> list[str]:
    """Give the tasks that were shown, in their order."""
    titles = [line for line in text.splitlines() if line.startswith("--- ")]
    return [title.rpartition("/")[2] for title in titles]


def rubric() -> Rubric:
    """Give the rubric of the suite."""
    return read_rubric(RUBRIC)


def test_labels_hold_what_the_run_s_judge_was_shown(sit: Any) -> None:
    """Each line makes the very prompt that the judge of that trial was asked, word for word."""
    sit(["4", "2"] * 4)

    run = load_run(find_run(Path(".agenteval/runs"), LATEST))
    prompts = {
        f"{run.name}:{entry.key.label}": event.details["prompt"]
        for entry in run.entries
        for event in run.trial(entry).transcript.events
        if event.kind == "judge_ask"
    }
    examples = read_labels(LABELS, rubric())
    assert len(examples) == 4
    for example in examples:
        assert json_digest(rubric().messages(example.values)) == prompts[example.id]


def test_calibrate_reads_labels_as_they_are(typed: Any, sit: Any) -> None:
    """The command that is printed at the end works at once: a judge who agrees with the person is perfect."""
    order = sit(["s"] * 4).tasks
    done = typed([str(score) for name in order for score in WORTH[name]])
    (command,) = (line for line in done.out.splitlines() if line.startswith("next: agenteval calibrate"))
    assert command == f"next: agenteval calibrate {LABELS} --rubric evals/letters/tidy.jinja --judge MODEL"

    calibrate = [*command.split()[2:-1], "perfect", "--results", "calibrations"]
    assert main([*calibrate, "--threshold", "mae=0"]) == 0


def test_it_goes_on_where_it_was(sit: Any) -> None:
    """What was answered is asked no more, in whatever order it is started again."""
    first = sit(["5", "4", "3"], seed=1)
    (done, half) = lines()
    assert (done["scores"], half["scores"]) == ({"order": 5, "tone": 4}, {"order": 3})

    second = sit(["1"] * 5, seed=7)
    assert {*second.tasks} == {*WORTH} - {first.tasks[0]}
    ids = [line["id"] for line in lines()]
    assert len(ids) == len({*ids}) == 4
    assert sit([]).tasks == []


def test_the_order_hangs_on_the_seed_alone(sit: Any) -> None:
    """A trial's place among others does not move when some of them are not asked for; a seed moves it."""
    skipped = ["s"] * 4
    every = sit(skipped).tasks
    some = sit(skipped, "one", "four", "two").tasks
    assert some == [name for name in every if name in some]
    assert any(sit(skipped, seed=seed).tasks != every for seed in (1, 2, 3))


def test_each_answer_is_on_disk_before_the_next_question(sit: Any) -> None:
    """Whatever ends the program between two answers, all that were given are there."""
    person = sit(["5", "4", "n", "a note", "3", "u"])

    assert person.on_disk == [0, 1, 2, 2, 2, 3, 4]
    assert lines()[1]["scores"]["tone"] is None
    assert lines()[1]["note"] == "a note"
    assert [*read_labels(LABELS, rubric())[1].labels] == ["order"]


def test_what_was_written_by_hand_meanwhile_stays(sit: Any) -> None:
    """Each answer goes into the file as it is on disk, in the line of its id; a last line needs no end."""
    values = {"task": "Write.", "answer": "so"}
    file = LabelFile(LABELS, rubric(), (1, 5))
    file.write("a", values, PersonLabels({"order": 1}))
    own = json.dumps({"id": "b", "input": "By hand.", "output": "so", "scores": {"order": 5}})
    LABELS.write_text(LABELS.read_text(encoding="utf-8") + own, encoding="utf-8")
    for id, score in (("c", 3), ("a", 2)):
        file.write(id, {**values, "task": id}, PersonLabels({"order": score}))
    assert [(line["id"], line["scores"]["order"]) for line in lines()] == [("a", 2), ("b", 5), ("c", 3)]
    assert LABELS.read_bytes().endswith(b"}\n")


def test_two_terminals_may_label_into_one_file(here: Path) -> None:
    """Each writes the whole file, and neither loses what the other has written meanwhile."""

    def label(whose: str) -> None:
        file = LabelFile(LABELS, rubric(), (1, 5))
        for number in range(40):
            values = {"task": "Write.", "answer": f"{whose}{number}"}
            file.write(f"{whose}{number}", values, PersonLabels({"order": 1}))

    with ThreadPoolExecutor(2) as terminals:
        list(terminals.map(label, "ab"))
    assert len(lines()) == 80


def test_no_secret_is_written(here: Path) -> None:
    """A run may be older than what is known of secrets now."""
    KNOWN_SECRETS.know(["hush-hush-4711-hush"])
    try:
        values = {"task": "Write.", "answer": "it is hush-hush-4711-hush"}
        LabelFile(LABELS, rubric(), (1, 5)).write(
            "a", values, PersonLabels({"order": 1}, "hush-hush-4711-hush")
        )
        again = LabelFile(LABELS, rubric(), (1, 5))
        assert again.labels_of(again.id_for("b", values)).scores == {"order": 1}
    finally:
        KNOWN_SECRETS.forget()
    assert "4711" not in LABELS.read_text(encoding="utf-8")


def test_undecided_ones_can_be_chosen(pool: ReviewPool) -> None:
    """That is told by the grade of the grader that asks by the rubric, and by no other."""
    first, second, *_ = pool.trials
    grades = tuple(replace(grade, score=None) for grade in second.entry.grades)
    unsure = replace(second, entry=replace(second.entry, grades=grades))
    assert chosen_trials([first, unsure], ["undecided"], None, 0) == [unsure]


def test_a_comment_is_the_trial_s_note_wherever_it_is_written(typed: Any, sit: Any) -> None:
    """Scored and skipped trials count as looked at; a comment made elsewhere gets into the labels too."""
    run = load_run(find_run(Path(".agenteval/runs"), LATEST))
    (task,) = sit(["q"]).tasks
    first = next(entry.key for entry in run.entries if entry.key.task == task)

    done = typed(["n", "wrong greeting", "4", "2", "s", "q"])
    notes = read_notes(run.folder)
    assert [(key == first, note.comment, bool(note.looked_at)) for key, note in notes.items()] == [
        (True, "wrong greeting", True),
        (False, "", True),
    ]
    assert lines()[0]["note"] == "wrong greeting"
    # It may name a judge or a model: it is shown with them.
    assert done.out.index("wrong greeting") > done.out.index("judge perfect")

    write_note(run.folder, first, Note(notes[first].looked_at, "rather: no greeting"))
    assert typed(["q"]).status == 0
    assert lines()[0]["note"] == "rather: no greeting"
    assert "note [rather: no greeting]: " in typed(["b", "n", "", "q"]).out
    assert read_notes(run.folder)[first].comment == "rather: no greeting"

    (run.folder / NOTES).unlink()
    typed(["q"])
    assert read_notes(run.folder) == {first: Note("", "rather: no greeting")}
    write_note(run.folder, first, Note())
    typed(["q"])
    assert read_notes(run.folder) == {first: Note()}
    assert "note" not in lines()[0]


def test_back_changes_an_answer_in_its_line(sit: Any) -> None:
    """Also that of the trial before; an empty answer leaves what is there."""
    sit(["5", "4", "b", "1", "q"])
    assert [line["scores"] for line in lines()] == [{"order": 5, "tone": 1}]
    sit(["b", "b", "2", "", "q"])
    assert [line["scores"] for line in lines()] == [{"order": 2, "tone": 1}]


@pytest.mark.parametrize("answer", ["6", "0.9", "nan", "yes", "", "4 5"])
def test_what_is_no_answer_is_asked_again(sit: Any, answer: str) -> None:
    """The keys are said once more, and nothing is written."""
    person = sit([answer, "4,5"])
    assert any("is not an answer here" in line for line in person.seen)
    assert lines()[0]["scores"] == {"order": 4.5}


def test_judges_and_models_are_hidden_until_the_person_has_scored(sit: Any) -> None:
    """What was said of a trial is no anchor; afterwards it is shown on the person's scale."""
    before = "\n".join(sit(["5", "o", "v", "?"], "two").seen)
    assert not any(word in before for word in ("as it says", "perfect", "scripted"))

    after = "\n".join(sit(["5"], "two").seen)
    assert "judge perfect: order 1 (you 5), tone 5 (you 5): as it says" in after
    assert "model scripted" in after

    assert "  judge perfect: order 4, tone 2: as it says" in sit(["q"], "one", blind=False).seen


def test_a_comment_of_somebody_else_is_hidden_as_well(typed: Any) -> None:
    """It may say what a judge found; a person who has a comment of their own puts it instead."""
    run = load_run(find_run(Path(".agenteval/runs"), LATEST))
    (two,) = (entry.key for entry in run.entries if entry.key.task == "two")
    write_note(run.folder, two, Note("", "the judge is wrong"))

    before = typed(["n", "", "5"], "--task", "two").out
    assert "note [hidden until the trial is scored]: " in before
    assert "the judge is wrong" not in before
    assert "the judge is wrong" in typed(["5"], "--task", "two").out
    assert read_notes(run.folder)[two].comment == "the judge is wrong"


def test_foreign_text_does_not_paint(sit: Any) -> None:
    """An answer's escapes are written out where they are shown; the file holds them as they were."""
    seen = "\n".join(sit(["v", "o", "5", "5"], "three").seen)
    assert not {"\x1b", "\u202e"} & {*seen}
    assert "\\x1b[41m painted" in seen
    assert lines()[0]["output"].endswith(PAINT)


def test_another_scale_is_written_with_each_line(sit: Any) -> None:
    """Labels of two scales may stand in one file, and come out as the same numbers from 0 to 1."""
    sit(["5", "1", "q"])
    assert "tone, 0 to 100 [0]: " in sit(["b", "50", "q"], scale=(0, 100)).seen
    assert lines()[0]["scale"] == [0, 100]
    assert read_labels(LABELS, rubric())[0].labels == {"order": 1, "tone": 0.5}


def test_held_out_trials_are_not_shown(typed: Any) -> None:
    """Labelling lets a person look: they are left out unless they are asked for by name."""
    done = typed(["v", "s"] * 9)
    assert "KEPTBACK" not in done.out
    assert "left out: 1 held out, 1 with nothing to judge, 1 identical to another" in done.out
    assert asked(typed(["q"], "--split", "held_out").out) == ["unseen"]


def test_another_person_has_a_file_of_their_own(typed: Any, sit: Any) -> None:
    """Both files hold the same ids, so that two people can be compared; one file never holds two people."""
    sit(["5", "4", "q"])
    done = typed(["1", "2", "q"], "--labeller", "anna", "--rubric", "polite")
    annas = LABELS.with_name("tidy.anna.jsonl")

    assert [line["id"] for line in lines(annas)] == [line["id"] for line in lines()]
    assert lines(annas)[0]["labeller"] == "anna"
    assert "agreement with tidy.jsonl: order alpha 0.00 on 1, tone alpha 0.00 on 1" in done.out
    assert read_labels(annas, rubric())[0].labels == {"order": 0, "tone": 0.25}
    with pytest.raises(UsageMistake, match="holds labels of anna; put yours into another file"):
        LabelFile(annas, rubric(), (1, 5), "ben")


def test_a_rubric_of_nobody_shows_what_every_trial_has(typed: Any) -> None:
    """A registered rubric, or a file, needs no grader of the run that asks by it."""
    done = typed(["1", "1", "q"], "--rubric", "task_fulfilment", "--task", "one", "-o", "own.jsonl")
    assert done.status == 0, done.err
    (line,) = lines(Path("own.jsonl"))
    assert (line["input"], line["output"]) == ({"task": "Write plain.", "calls": ""}, "order 4 tone 2")
    Path("ferry.jinja").write_text(
        RUBRIC.replace("task: what", "ferry: what").replace("{{ task", "{{ ferry"), encoding="utf-8"
    )
    refused = typed([], "--rubric", "ferry.jinja")
    assert refused.err.startswith("agenteval: no grader of these trials uses it; others: rubric")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--bucket", "plane"), "--bucket plane: no trial of "),
        (("--only", "mised"), "--only mised: expected passed"),
        (("--rubric", "tidi"), "no grader here uses a rubric 'tidi'"),
        (("--rubric", "none.jinja"), "--rubric none.jinja: expected a file"),
        (("--sample", "0"), "--sample 0: expected a number above 0"),
        (("-o", "pytest.ini/labels.jsonl"), "pytest.ini/labels.jsonl: labels cannot be written there"),
        (("-o", "labels.csv"), "labels.csv: expected a file of labels that ends in .jsonl"),
    ],
)
def test_a_mistake_is_one_line(typed: Any, options: Sequence[str], complaint: str) -> None:
    """Nothing is written then."""
    refused = typed(["3"], *options)
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert refused.err.startswith(f"agenteval: {complaint}")
    assert not LABELS.exists()


@pytest.mark.skipif(os.name != "posix", reason="a terminal of Unix")
def test_on_a_terminal_ctrl_c_keeps_what_is_done(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wider than 60 columns; answers are typed, and the status is the one that shells know."""
    monkeypatch.delenv("COLUMNS")
    person = PytestOnTerminal(here, 60, ["review", "--task", "four"], ("-c", COMMAND))
    try:
        person.wait_for("order, 1 to 5:")
        os.write(person.terminal.ours, b"3\n")
        shown = person.wait_for("tone, 1 to 5:")
        assert any("v shows it" in line for line in shown)
        person.process.send_signal(signal.SIGINT)
        person.wait_for("1 trial labelled now")
        assert person.process.wait(20) == 130
    finally:
        person.process.kill()
        person.terminal.close()
    assert lines()[0]["scores"] == {"order": 3}
