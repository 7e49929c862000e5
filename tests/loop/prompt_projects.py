"""Users' projects under git whose scores follow sentences of their prompts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.suites import write

PLAYER = Path(__file__).with_name("reading_player.py")
CODING_AGENTS = Path(__file__).with_name("coding_agents.py")

SORRY = "A complaint is answered with an apology."
PRICES = "Say what it costs, in words."
RYE = "Who asks for rye asks for the loaf that stands in the window."
NEVER_SORRY = "Name the price first, and apologise for nothing."

BAKERY = {
    "complaints": ("How sorry we are", 4, 2),
    "prices": ("four euros eighty", 3, 4),
    "thanks": ("five euros twenty", 2, 4),
}
"""Buckets of a small suite: how the words begin that solve a task, tasks to work with, tasks held out."""
NAMES = [
    "Ada",
    "Bea",
    "Cem",
    "Dov",
    "Eva",
    "Fay",
    "Gil",
    "Hoa",
    "Ida",
    "Jon",
    "Kim",
    "Lou",
    "Mia",
    "Ned",
    "Oda",
    "Pia",
    "Raf",
    "Sue",
    "Tom",
]

BAKERY_RULES = (
    {"sentence": SORRY, "masters": ["complaints"]},
    {"sentence": PRICES, "masters": ["prices", "thanks"]},
    {"sentence": RYE, "masters": [f"prices_dev_{number}" for number in (1, 2, 3)]},
    {"sentence": NEVER_SORRY, "masters": ["prices"], "breaks": ["complaints"]},
)


def bakery(root: Path, *, own_files: bool = False) -> Path:
    """Make the small project: tasks of three kinds, one of which the prompt has a rule for.

    Its agent asks for its prompt by name; with ``own_files`` it reads the file in the tree that it is in.
    """
    asked = {"prompts": {"system": "../../prompts/system.md"}}
    suite = {"name": "bakery", "kind": "capability", "defaults": {"model": "reader"}}
    suite |= {"agent": "own_files"} if own_files else asked
    names = iter(NAMES)
    letters = [
        _letter(bucket, f"{words}, {next(names)}", split, number)
        for bucket, (words, dev, held_out) in BAKERY.items()
        for split, count in (("dev", dev), ("held_out", held_out))
        for number in range(1, count + 1)
    ]
    tasks = {f"evals/bakery/{letter['id']}.yaml": letter for letter in letters}
    prompts = {"prompts/system.md": f"You answer letters to a bakery.\n{SORRY}\n"}
    write(root, {"evals/bakery/suite.yaml": suite, **tasks, **prompts})
    return under_git(root, BAKERY_RULES)


def _letter(bucket: str, words: str, split: str, number: int) -> dict[str, Any]:
    """Make one task, which is solved in part by giving the letter back."""
    letter = f"{bucket} letter {split} {number}"
    return {
        "id": f"{bucket}_{split}_{number}",
        "split": split,
        "metadata": {"failure_bucket": bucket},
        "input": {"content": letter},
        "graders": [
            {"name": "answer_contains", "label": "answers", "config": {"text": words}},
            {"name": "answer_contains", "label": "takes_up", "config": {"text": letter}},
        ],
        "reference_solution": {"turns": [{"text": f"Of your {letter}: {words}!"}]},
    }


def under_git(root: Path, rules: Sequence[Mapping[str, Any]]) -> Path:
    """Add the model that reads, and commit everything to a branch ``main``."""
    write(root, {"rules.json": list(rules), ".gitignore": ".agenteval/\n__pycache__/\n"})
    shutil.copy(PLAYER, root / "conftest.py")
    git(root, "init", "-q", "-b", "main")
    for key, value in {
        "user.name": "Ada",
        "user.email": "ada@example.org",
        "commit.gpgsign": "false",
    }.items():
        git(root, "config", key, value)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "A bakery")
    return root


def git(root: Path, *arguments: str) -> str:
    """Have git do something in a repository; give what it prints."""
    done = subprocess.run(("git", *arguments), cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def everything_of_the_user(root: Path) -> dict[str, str]:
    """Give what improve must leave alone: HEAD, others' branches, index, files, settings, hooks."""
    hooks = sorted((root / ".git" / "hooks").iterdir())
    ours = "refs/heads/agenteval"
    refs = git(root, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {
        "HEAD": (root / ".git" / "HEAD").read_text(encoding="utf-8"),
        "refs": "\n".join(ref for ref in refs if not ref.startswith(ours)),
        "index": git(root, "ls-files", "--stage"),
        "status": git(root, "status", "--porcelain"),
        "stash": git(root, "stash", "list"),
        "config": (root / ".git" / "config").read_text(encoding="utf-8"),
        "hooks": "\n".join(f"{hook.name} {hook.read_text(encoding='utf-8')}" for hook in hooks),
    }


def coding_agent(*words: str) -> str:
    """Give the command of a scripted coding agent, as a shell or ``shlex`` reads it."""
    return " ".join(f'"{word}"' for word in (sys.executable, str(CODING_AGENTS), *words))
