"""Everything that a coding agent, a person or a machine can do to a loop, on a suite of nineteen letters."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from operator import mul
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.loop.improvements import (
    Improved,
    finished_trials,
    improve,
    is_alive,
    mean_of,
    processes_with,
    sides,
)
from tests.loop.prompt_projects import (
    BAKERY,
    NEVER_SORRY,
    PRICES,
    RYE,
    coding_agent,
    everything_of_the_user,
    git,
)

Project = Callable[[str], Path]
PROMPT = "prompts/system.md"
DEV = sum(dev for _, dev, _ in BAKERY.values())


def improved(root: Path, command: str, *arguments: str, **more: Any) -> Improved:
    """Improve the small suite: the prices are to rise."""
    own = ("--prompts", "prompts/*.md", "--rounds", "2", "--repetitions", "3", "--focus", "prices")
    return improve(root, "evals/bakery", "--coding-agent", command, *own, *arguments, **more)


@pytest.mark.parametrize("name", ["bakery", "bakery with own files"])
def test_a_rule_that_holds_is_confirmed(project: Project, name: str) -> None:
    """Feedback tells of the focus, whether the agent asks for its prompt by name or reads its own file."""
    root = project(name)
    done = improved(root, coding_agent("read", PROMPT, "prices", PRICES))
    assert done.status == 0, done
    tried = done.log["rounds"][0]["dev"]
    assert tried["in_one_run"] is (name == "bakery")
    old, new = sides(root, tried)
    assert (mean_of(new, "prices"), mean_of(new)) == (1.0, 1.0)
    assert abs(mean_of(old, "prices") - tried["focus_old"]) < 1e-9
    assert done.log["trials"] == len(finished_trials(root))
    assert git(root, "show", f"{done.log['branch']}:{PROMPT}").endswith(f"{PRICES}\n")


def test_the_log_says_what_the_journals_say(project: Project) -> None:
    """Trials and tokens of every step, the start's score, and both held-out tests, all counted once more.

    What a round kept is the old side of the next, and one commit of the branch.
    """
    root = project("bakery")
    done = improved(root, coding_agent("add", PROMPT, RYE, PRICES), "--focus", "thanks")
    assert done.decisions == ["kept for now", "kept for now"], done
    start, held_out = done.log["start_run"], done.log["held_out"]
    steps = [each[name] for each in done.log["rounds"] for name in ("screen", "dev")]
    tried = [{**start, "runs": [start["run"]]}, *steps, held_out["tried"]]
    for step in tried:
        trials = [trial for run in step["runs"] for trial in finished_trials(root, run)]
        assert step["spent"]["trials"] == len(trials)
        assert step["spent"]["tokens"] == sum(map(tokens_of, trials))
    assert done.log["trials"] == sum(step["spent"]["trials"] for step in tried) == len(finished_trials(root))
    assert abs(mean_of(sides(root, tried[0])[0]) - start["score"]) < 1e-9
    for step in steps:
        old, new = sides(root, step)
        assert abs(mean_of(old, "prices", "thanks") - step["focus_old"]) < 1e-9
        assert abs(mean_of(new, "prices", "thanks") - step["focus_new"]) < 1e-9
    (_, first), (second, _) = (sides(root, each["dev"]) for each in done.log["rounds"])
    assert first == second
    assert len(git(root, "log", "--format=%H", f"main..{done.log['branch']}").split()) == 2
    old, new = sides(root, held_out["tried"])
    whole, focus = held_out["confirmation"]["tests"]
    assert abs(whole["p"] - p_of_signs(old, new)) < 1e-9
    assert (focus["tasks"], whole["tasks"]) == (8, 10)
    assert all(trial["split"] == "held_out" for trial in finished_trials(root, held_out["tried"]["runs"][0]))
    headers = [file for file in root.rglob("run.json") if "held-out" in file.parent.name]
    assert [json.loads(file.read_text())["held_out_looks"] for file in headers] == [{"bakery": 1}]


def tokens_of(trial: Mapping[str, Any]) -> int:
    """The tokens of a trial's journal line."""
    return sum(trial["usage"].get(name, 0) for name in ("in", "out"))


def p_of_signs(old: Mapping[str, Sequence[float]], new: Mapping[str, Sequence[float]]) -> float:
    """The share of all ways to give the tasks' differences a sign that are as far from 0."""
    differences = [fmean(new[task]) - fmean(old[task]) for task in old]
    observed = abs(sum(differences)) - 1e-9
    flips = list(product((1, -1), repeat=len(differences)))
    return fmean(abs(sum(map(mul, flip, differences))) >= observed for flip in flips)


def test_a_sentence_for_the_tasks_at_hand_is_not_confirmed(project: Project) -> None:
    """The focus's held-out tasks stay as they were."""
    done = improved(project("bakery"), coding_agent("add", PROMPT, RYE))
    assert (done.status, done.log["outcome"]) == (3, "kept on dev, not confirmed"), done


def test_what_spoils_another_bucket_is_discarded_and_names_it(project: Project) -> None:
    """Complaints were answered well before."""
    done = improved(project("bakery"), coding_agent("add", PROMPT, NEVER_SORRY), "--rounds", "1")
    assert (done.status, done.decisions) == (1, ["discarded"]), done
    assert "complaints (1.00 -> " in done.reasons[0]


def test_who_changes_nothing_ends_the_loop(project: Project) -> None:
    """After one round, and the first run is all that was tried."""
    root = project("bakery")
    done = improved(root, coding_agent("idle"), "--rounds", "8")
    assert (done.status, done.decisions) == (1, ["nothing changed"]), done
    assert len(finished_trials(root)) == 3 * DEV


GRADER = "evals/bakery/prices_dev_1.yaml"
REFUSED = {
    "a needle": (("add", PROMPT, "Rye is four euros eighty, Gil."), "contains texts of tasks"),
    "a task edited": (("edit", GRADER, "four euros eighty", "prices"), GRADER),
    "the model edited": (("edit", "conftest.py", "LUCK = 0.25", "LUCK = 1.0"), "conftest.py"),
    "a file more": (("stray", "notes/plan.txt"), "notes/plan.txt"),
    "a conftest more": (("stray", "evals/conftest.py", "import pytest\n"), "evals/conftest.py"),
    "a file that git was told to overlook": (("hidden", PROMPT, PRICES, "evals/sly.py"), "evals/sly.py"),
    "a link": (("link", PROMPT, "/etc/hostname"), "link"),
    "a failure": (("crash",), "status 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_change_of_prompts_alone_is_refused(project: Project, name: str) -> None:
    """It says why, tries nothing, and the user's own files, branches and settings stay as they are."""
    root = project("bakery")
    words, reason = REFUSED[name]
    done = improved(root, coding_agent(*words), "--rounds", "1", HOME=str(root.parent))
    assert (done.status, done.decisions) == (1, ["refused"]), done
    assert reason in done.reasons[0]
    assert len(finished_trials(root)) == 3 * DEV


@pytest.mark.parametrize("name", ["commit", "branch", "tamper"])
def test_what_an_agent_does_with_git_is_nothing_to_the_user(project: Project, name: str) -> None:
    """Commits, branches, a hook and a setting stay in its tree; what it leaves in the prompts counts."""
    root = project("bakery")
    before = everything_of_the_user(root)
    done = improved(root, coding_agent(name, PROMPT, PRICES), "--rounds", "1", HOME=str(root.parent))
    assert done.decisions == ["kept for now"], done
    assert everything_of_the_user(root) == before
    assert not [*root.parent.rglob("hooked"), *root.rglob("fsmonitored")]


def test_a_file_that_git_ignores_is_in_no_trial(project: Project) -> None:
    """What is tried is a commit of the prompts alone; what else lay in the tree is gone with it."""
    root = project("bakery with own files")
    done = improved(root, coding_agent("stray", "evals/__pycache__/x.py"), "--rounds", "1")
    assert (done.status, done.decisions) == (1, ["nothing changed"]), done
    assert not list(root.rglob("x.py"))


def test_a_leak_of_a_held_out_task_is_refused_and_not_quoted(project: Project) -> None:
    """Whoever reads the log, or the next feedback, learns nothing of what it said."""
    root = project("bakery")
    done = improved(root, coding_agent("add", PROMPT, "Rye is four euros eighty, Jon."), "--rounds", "1")
    assert (done.status, done.decisions) == (1, ["refused"]), done
    assert "held" in done.reasons[0]
    assert "prices_held_out" not in done.markdown


def test_a_coding_agent_is_shown_nothing_of_held_out_tasks(project: Project) -> None:
    """Neither in its tree nor in its feedback, round after round, nor by going back in history."""
    root = project("bakery")
    note = root.parent / "seen"
    command = coding_agent("look", str(note), "add", PROMPT, RYE, PRICES)
    done = improved(root, command, "--focus", "thanks")
    assert done.decisions == ["kept for now", "kept for now"], done
    seen = note.read_text(encoding="utf-8")
    assert "prices_dev_1.yaml" in seen
    assert "Gil" in seen
    assert "held_out_" not in seen
    assert "Jon" not in seen


def test_a_prompt_that_is_gone_or_no_template_keeps_nothing(project: Project) -> None:
    """Every trial errors, or none can be collected: neither is a rise, and the loop goes on to its end."""
    root = project("bakery")
    done = improved(root, coding_agent("delete", PROMPT), "--rounds", "1")
    assert (done.status, done.decisions) == (1, ["discarded"]), done
    done = improved(root, coding_agent("add", PROMPT, "{% if %}"), "--rounds", "1")
    assert (done.status, done.decisions) == (1, ["discarded"]), done
    assert "no task has scores on both sides" in done.reasons[0]


def test_one_that_hangs_is_ended_with_all_that_it_started(project: Project) -> None:
    """It ignores every polite signal, and so does its child, which has a session of its own."""
    root = project("bakery")
    note = root.parent / "pids"
    done = improved(root, coding_agent("hang", str(note)), "--rounds", "1", "--coding-timeout", "2")
    assert (done.status, done.decisions) == (1, ["refused"]), done
    assert "was stopped after 2.0 s" in done.reasons[0]
    assert [pid for pid in map(int, note.read_text().split()) if is_alive(pid)] == []
    assert processes_with(str(root)) == []


def test_what_an_agent_leaves_running_is_ended(project: Project) -> None:
    """A server that it started in a session of its own and forgot, though its change counts."""
    root = project("bakery")
    done = improved(
        root, coding_agent("leave_behind", PROMPT, PRICES, str(root.parent / "note")), "--rounds", "1"
    )
    assert done.decisions == ["kept for now"], done
    assert processes_with(str(root)) == []


def test_what_an_agent_prints_paints_nothing(project: Project) -> None:
    """Five megabytes with escape codes: kept in a file, its last line quoted as plain text."""
    root = project("bakery")
    done = improved(root, coding_agent("shout", PROMPT, PRICES), "--rounds", "1")
    assert done.decisions == ["kept for now"], done
    assert not [text for text in (done.out, done.err, done.markdown) if "\x1b" in text or "\x07" in text]
    assert len(done.markdown) < 20_000


@pytest.mark.parametrize("most", [27, 80, 100, 140, 200])
def test_no_more_trials_are_made_than_there_may_be(project: Project, most: int) -> None:
    """Counted in the journals, whatever the loop is at when they come to an end."""
    root = project("bakery")
    done = improved(
        root, coding_agent("add", PROMPT, PRICES, RYE, "Be kind."), "--rounds", "8", "--max-trials", str(most)
    )
    made = len(finished_trials(root))
    assert made <= most, done
    assert done.log["trials"] == made
    assert done.status in (0, 1, 3)


def test_no_more_rounds_are_made_than_there_may_be(project: Project) -> None:
    """``--max-rounds`` holds whatever ``--rounds`` asks for."""
    done = improved(
        project("bakery"), coding_agent("add", PROMPT, PRICES, RYE), "--rounds", "8", "--max-rounds", "1"
    )
    assert len(done.decisions) == 1, done


AT_WORK = {
    "at the coding agent": ("wait", "at-work"),
    "in the first run": ("add", "project/.agenteval/runs/*-start/journal-*"),
    "in a screen": ("add", "project/.agenteval/runs/*-1-screen/journal-*"),
    "in a round": ("add", "project/.agenteval/runs/*-1-dev/journal-*"),
    "at held-out tasks": ("add", "project/.agenteval/runs/*-held-out/journal-*"),
}


@pytest.mark.parametrize("when", AT_WORK)
def test_ctrl_c_loses_nothing(project: Project, uninterrupted: Improved, when: str) -> None:
    """Wherever it comes: nothing goes on without us, and --continue ends as if it had never come.

    But held-out tasks that were tried in part have been looked at: their tests are stricter the next time.
    """
    root = project("bakery")
    what, file = AT_WORK[when]
    words = ("wait", str(root.parent / file)) if what == "wait" else ()
    command = coding_agent(*words, "add", PROMPT, PRICES)
    first = improved(root, command, after=file, READER_SECONDS="0.3")
    assert first.status == 130, first
    assert "--continue" in first.out
    assert processes_with(str(root)) == []
    done = improve(root, "--continue")
    assert of_interest(done) == of_interest(uninterrupted), done
    assert done.log["held_out"]["confirmation"]["looks"] == (2 if "held-out" in when else 1)
    assert done.log["trials"] == len(finished_trials(root))
    assert processes_with(str(root)) == []


@pytest.mark.parametrize("when", AT_WORK)
@pytest.mark.parametrize("name", ["bakery", "bakery with own files"])
def test_a_process_that_is_killed_loses_nothing_either(
    project: Project, uninterrupted: Improved, name: str, when: str
) -> None:
    """Nothing can be ended then; --continue ends what was left first, and counts its trials."""
    root = project(name)
    what, file = AT_WORK[when]
    words = ("wait", str(root.parent / file)) if what == "wait" else ()
    beside = file.replace("/journal", "*/journal")
    command = coding_agent(*words, "add", PROMPT, PRICES)
    first = improved(root, command, after=beside, ended_by=signal.SIGKILL, READER_SECONDS="0.3")
    assert first.status == -signal.SIGKILL, first
    done = improve(root, "--continue")
    assert processes_with(str(root)) == []
    assert of_interest(done) == of_interest(uninterrupted), done
    assert done.log["held_out"]["confirmation"]["looks"] == (2 if "held-out" in when else 1)
    assert done.log["trials"] >= len(finished_trials(root))


def test_trials_end_with_the_process_that_wanted_them(project: Project) -> None:
    """Killed, it ends nobody: the pytest notices, for trials cost money that nobody reads the result of."""
    root = project("bakery")
    after = AT_WORK["in the first run"][1]
    improved(root, coding_agent("idle"), after=after, ended_by=signal.SIGKILL, READER_SECONDS="60")
    end = time.monotonic() + 10
    while processes_with(str(root)):
        assert time.monotonic() < end, "trials go on"
        time.sleep(0.1)
    improve(root, "--continue")


BESIDE = {
    "the old state taken away": "import shutil\nshutil.rmtree('../../kept')\n",
    "the old state changed": "open('../../kept/prompts/system.md', 'w').write('x')\n",
    "a configuration above": (
        "open('../../pytest.ini', 'w').write('[pytest]')\nopen('../../conftest.py', 'w').write('x')\n"
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_is_done_beside_the_tree_is_nothing_to_the_trials(project: Project, name: str) -> None:
    """The old side is made anew, and no pytest obeys what lies above its tree."""
    root = project("bakery")
    script = root.parent / "agent.py"
    change = f"open('{PROMPT}', 'a').write('{PRICES}\\n')\n"
    script.write_text(change + BESIDE[name], encoding="utf-8")
    done = improved(root, f"{sys.executable} {script}", "--rounds", "1")
    assert done.decisions == ["kept for now"], done


@pytest.fixture(scope="module")
def uninterrupted(made: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Improved:
    """The same loop, left alone."""
    root = tmp_path_factory.mktemp("uninterrupted") / "project"
    shutil.copytree(made("bakery"), root, symlinks=True)
    return improved(root, coding_agent("add", PROMPT, PRICES))


def of_interest(done: Improved) -> object:
    """What a log says but for names of runs, commits, times and folders."""
    rounds = [
        {key: each[key] for key in ("number", "decision", "reason", "files", "diff", "leaks")}
        for each in done.log["rounds"]
    ]
    # At a second look levels are stricter, so what a test can show and shows may differ; its figures may not.
    at_level = ("testable", "confirmed")
    tests = [
        {key: value for key, value in test.items() if key not in at_level}
        for test in done.log["held_out"]["confirmation"]["tests"]
    ]
    return rounds, done.log["outcome"], tests, done.log["ended"], done.status
