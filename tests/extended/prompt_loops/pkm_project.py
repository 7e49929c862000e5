"""The suite pkm as a user has it who changes its prompts: under git, with a model that does as they say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.loop.prompt_projects import under_git
from tests.suites import write

ROOT = Path(__file__).parents[3]
SUITE = "evals/pkm"
PROMPT = "prompts/skipping.md"
DEV, HELD_OUT, BUCKETS = 41, 25, 25

KEPT_OUT = "What the user wants kept out of the notes is not filed."
GREETINGS = "A greeting, a filler word or an emoji alone is not filed."
READ_FIRST = "Read a note before you add to it, and add below what stands there."
ALL_BUT_GREETINGS = "All but a bare greeting is filed, whatever is said about it."
HOURS = "Of nights and trainings, write down the hours."

SUBFILES = ("pkm_starter_route_into_health_sleep", "pkm_starter_route_into_health_workouts")
ROUTES = (
    "cross_ref_paper_to_thesis",
    "no_redundant_file",
    "research_note_split_routing",
    "route_into_chinese_book_file",
    "route_into_chinese_named_file",
    "route_into_english_career_file",
    "route_into_existing_area_file",
    "route_into_existing_book_file",
    "route_into_existing_chars_file",
    "route_into_existing_paper",
    "route_into_existing_project",
    "route_into_existing_resource",
    "route_into_existing_subfile",
    "route_into_inprogress_chapter",
    "specific_subfile_pressure",
)
"""Buckets whose tasks add to a note that is there."""

RULES = (
    {"sentence": KEPT_OUT, "masters": ["opt_out"]},
    {"sentence": GREETINGS, "masters": ["skip_trivial"]},
    {"sentence": READ_FIRST, "masters": list(ROUTES)},
    {"sentence": ALL_BUT_GREETINGS, "masters": ["skip_trivial"], "breaks": ["opt_out"]},
    {"sentence": HOURS, "masters": list(SUBFILES)},
)

OWN_FILES = '''"""The agent pkm with rules of its own."""

from pathlib import Path

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import PkmAgent

RULES = Path(__file__).parents[1] / "prompts" / "skipping.md"


class OwnFilesPkm(PkmAgent):
    """Reads its rules from a file of the tree it stands in; nobody is asked for them by name."""

    def system_prompt(self, texts):
        return RULES.read_text(encoding="utf-8")


def pytest_agenteval_register(registry):
    registry.agent("own_files_pkm", OwnFilesPkm)
'''


def pkm(root: Path, *, own_files: bool = False) -> Path:
    """Make the project: tasks, starting trees, and one prompt file with a rule on what is kept out."""
    shutil.copytree(ROOT / SUITE, root / SUITE)
    shutil.copytree(ROOT / "fixtures/pkm", root / "fixtures/pkm")
    suite = root / SUITE / "suite.yaml"
    text = suite.read_text(encoding="utf-8").replace("defaults:\n", "defaults:\n  model: reader\n")
    if own_files:
        text = text.replace("agent: pkm\n", "agent: own_files_pkm\n")
        write(root, {"evals/conftest.py": OWN_FILES})
    else:
        text += "prompts: {skipping: ../../prompts/skipping.md}\n"
    suite.write_text(text, encoding="utf-8")
    write(root, {PROMPT: f"# What is not filed\n\n{KEPT_OUT}\n"})
    return under_git(root, RULES)
