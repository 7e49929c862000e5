"""The verbs of ``agenteval``, each with the line that says what it is for.

A verb is a module of this room that bears its name, and has three functions: ``add_arguments(parser)``, the
verb's own ``NAME(args)``, which gives the exit status, and ``json_schema()``, which describes what ``--json``
writes. The module is imported when the verb is typed, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from types import ModuleType

VERBS: Mapping[str, str] = {
    "init": "write a first suite that passes at once, or copy a shipped one",
    "validate": "say everything that is wrong with task files",
    "schema": "print a JSON Schema",
    "runs": "list the runs that are kept, newest first",
    "show": "one trial: why it ended so, what was said, called and changed",
    "import": "bring in another benchmark's suite and runs, from your copy",
    "report": "stored runs as tables, side by side, or as a benchmark's files",
    "sql": "ask stored runs in SQL: trials, grades, calls, messages",
    "merge": "join runs of shards, or of several machines, into one",
    "compare": "two runs: is the new one better, worse, or can nobody tell?",
    "baseline": "keep a run as the file that later runs are compared with",
    "gate-check": "how often a gate's floors fail a run in which nothing changed",
    "trend": "a suite over its last runs, and tasks that they make suspect",
    "calibrate": "start pytest on labels: do judges agree with them?",
    "review": "score a run's trials yourself: labels to calibrate judges with",
    "guide": "rules for coding agents that work on evals, for AGENTS.md",
    "leaks": "where prompts hold what tasks ask and expect",
    "promote": "buckets that always passed: from now on a miss fails",
    "demote": "take a promotion back",
    "feedback": "what a run teaches whoever changes the prompts",
    "improve": "let a coding agent change prompts; held-out tasks confirm it",
    "audit": "do tasks and their graders see what is wrong?",
    "gepa": "have gepa's optimizer rewrite prompts on the dev split",
}

WITHOUT_JSON: Mapping[str, str] = {"schema": "what it prints is JSON"}
"""Verbs that have no ``--json``, and why."""


def verb_module(verb: str) -> ModuleType:
    """Import the module of a verb."""
    return import_module(f"pytest_agenteval.cli.{function_name(verb)}")


def function_name(verb: str) -> str:
    """Give the name of a verb's module and of its function in there: another where Python has to."""
    return f"{verb}_" if iskeyword(verb) else verb.replace("-", "_")
