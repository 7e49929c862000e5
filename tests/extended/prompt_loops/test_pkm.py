"""Coding agents of several kinds on the suite pkm: 41 tasks to work with in 25 buckets, 25 tasks held out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extended.prompt_loops.pkm_project import (
    ALL_BUT_GREETINGS,
    DEV,
    GREETINGS,
    HELD_OUT,
    HOURS,
    PROMPT,
    READ_FIRST,
    ROUTES,
    SUBFILES,
    SUITE,
)
from tests.loop.improvements import Improved, finished_trials, improve, mean_of, processes_with, sides
from tests.loop.prompt_projects import coding_agent, git

Project = Callable[[str], Path]


def improved(root: Path, command: str, focus: str, *arguments: str, rounds: int = 2) -> Improved:
    """Improve the suite pkm with a coding agent, each task tried thrice."""
    own = ("--prompts", "prompts/*.md", "--rounds", str(rounds), "--repetitions", "3")
    return improve(root, SUITE, "--coding-agent", command, "--focus", focus, *own, *arguments)


def test_a_rule_that_holds_for_tasks_like_these_is_confirmed(project: Project) -> None:
    """Notes are read first: 17 buckets of tasks rise, those of the focus and held-out ones too."""
    root = project("pkm")
    done = improved(root, coding_agent("read", PROMPT, "no_redundant_file", READ_FIRST), "no_redundant_file")
    assert done.status == 0, done
    assert done.decisions == ["kept for now"]
    assert done.log["outcome"] == "confirmed"
    assert READ_FIRST in git(root, "show", f"{done.log['branch']}:{PROMPT}")
    tried = done.log["rounds"][0]["dev"]
    old, new = sides(root, tried)
    assert len(old) == len(new) == DEV
    assert all(len(scores) == 3 for side in (old, new) for scores in side.values())
    focus = "pkm_starter_dedupe"
    assert abs(mean_of(old, focus) - tried["focus_old"]) < 1e-9
    assert abs(mean_of(new, focus) - tried["focus_new"]) < 1e-9
    held_out = done.log["held_out"]["tried"]
    old, new = sides(root, held_out)
    assert len(old) == len(new) == HELD_OUT
    assert {len(scores) for side in (old, new) for scores in side.values()} == {held_out["repetitions"]}
    suite = done.log["held_out"]["confirmation"]["tests"][0]
    assert abs(mean_of(old) - suite["old"]) < 1e-9
    assert abs(mean_of(new) - suite["new"]) < 1e-9
    assert done.log["trials"] == len(finished_trials(root))


def test_a_rule_is_confirmed_too_where_the_agent_reads_files_of_its_own(project: Project) -> None:
    """Old and new are two runs then, one in each tree, and each reads the file beside it."""
    root = project("pkm with own files")
    done = improved(root, coding_agent("add", PROMPT, READ_FIRST), "no_redundant_file", rounds=1)
    assert done.status == 0, done
    tried = done.log["rounds"][0]["dev"]
    assert not tried["in_one_run"]
    assert len(tried["runs"]) == 2
    old, new = sides(root, tried)
    assert mean_of(new) > mean_of(old) + 0.02
    assert set(old) == set(new)


def test_needles_in_the_prompt_are_refused(project: Project) -> None:
    """An expected value of one task is a leak: the round costs no trial."""
    root = project("pkm")
    sentence = "Whoever is woken at half past four, after a night of sewing, files that under sleep."
    done = improved(root, coding_agent("add", PROMPT, sentence), "route_into_existing_subfile", rounds=1)
    assert done.status == 1, done
    assert done.decisions == ["refused"]
    assert "gives tasks away" in done.reasons[0]
    assert done.log["rounds"][0]["leaks"]
    assert done.log["trials"] == len(finished_trials(root)) == 3 * DEV


def test_a_sentence_for_the_tasks_at_hand_is_not_confirmed(project: Project) -> None:
    """It quotes nothing and lifts the focus; no held-out task rises by it, and a person is told so."""
    root = project("pkm")
    done = improved(root, coding_agent("add", PROMPT, HOURS), "route_into_existing_subfile", rounds=1)
    assert done.status == 3, done
    assert done.decisions == ["kept for now"]
    assert done.log["outcome"] == "kept on dev, not confirmed"
    assert HOURS in git(root, "show", f"{done.log['branch']}:{PROMPT}")
    old, new = sides(root, done.log["rounds"][0]["dev"])
    assert mean_of(new, *SUBFILES) > mean_of(old, *SUBFILES)


def test_what_spoils_another_bucket_is_discarded_and_names_it(project: Project) -> None:
    """Greetings are skipped at last, and nine wishes to keep something out are passed over."""
    root = project("pkm")
    done = improved(root, coding_agent("add", PROMPT, ALL_BUT_GREETINGS), "skip_trivial", rounds=1)
    assert done.status == 1, done
    assert done.decisions == ["discarded"]
    assert "opt_out" in done.reasons[0]
    assert "opt\\_out" in done.markdown
    assert done.log["rounds"][0]["dev"]["focus_new"] == 1.0
    assert git(root, "branch", "--format=%(refname:short)").split() == ["main"]


def test_a_rule_for_one_bucket_with_one_held_out_task_is_kept_and_left_to_a_person(project: Project) -> None:
    """Three greetings of dev rise for sure; one greeting held out may be too little to say so."""
    root = project("pkm")
    done = improved(root, coding_agent("add", PROMPT, GREETINGS), "skip_trivial", rounds=1)
    assert done.decisions == ["kept for now"]
    assert done.status in (0, 3)
    tests = done.log["held_out"]["confirmation"]["tests"]
    assert [test["tasks"] for test in tests] == [HELD_OUT, 1]


TASK = f"{SUITE}/starter_dedupe/no_new_finance/task.json"
NOT_THEIRS = {
    "a grader": (("edit", TASK, '"pkm_no_overwrite"', '"pkm_completion"'), "no_new_finance/task.json"),
    "a starting tree": (("stray", "fixtures/pkm/starter/PKM/Inbox.md", "# Inbox\n"), "Inbox.md"),
    "one that hangs": (("hang", "{note}"), "did not end within 1.0 s"),
}


@pytest.mark.parametrize("name", NOT_THEIRS)
def test_who_does_anything_but_prompts_is_refused(project: Project, name: str) -> None:
    """A grader edited, a starting tree, no end at all: no trial is spent on it, and nothing goes on."""
    root = project("pkm")
    words, reason = NOT_THEIRS[name]
    command = coding_agent(*(word.format(note=root.parent / "pids") for word in words))
    done = improved(root, command, "skip_trivial", "--coding-timeout", "1", rounds=1)
    assert (done.status, done.decisions) == (1, ["refused"]), done
    assert reason in done.reasons[0]
    assert len(finished_trials(root)) == 3 * DEV
    assert processes_with(str(root)) == []


def test_who_changes_nothing_ends_the_loop(project: Project) -> None:
    """After one round, whatever was asked for."""
    root = project("pkm")
    done = improved(root, coding_agent("idle"), "skip_trivial", rounds=8)
    assert (done.status, done.decisions) == (1, ["nothing changed"]), done
    assert len(finished_trials(root)) == 3 * DEV


def test_several_rules_are_kept_one_after_the_other(project: Project) -> None:
    """What a round kept is the old side of the next; held-out tasks see all of it at once."""
    root = project("pkm")
    focus = "no_redundant_file", "--focus", "skip_trivial"
    command = coding_agent("add", PROMPT, READ_FIRST, GREETINGS)
    done = improved(root, command, *focus, rounds=3)
    assert done.status == 0, done
    assert done.decisions == ["kept for now", "kept for now"]
    text = git(root, "show", f"{done.log['branch']}:{PROMPT}")
    assert READ_FIRST in text
    assert GREETINGS in text
    (_, first), (second, _) = (sides(root, each["dev"]) for each in done.log["rounds"][:2])
    assert first == second
    assert len(git(root, "log", "--format=%H", f"main..{done.log['branch']}").split()) == 2
    assert set(ROUTES)
