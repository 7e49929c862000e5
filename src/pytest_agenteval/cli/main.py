"""The command ``agenteval``: its verbs, each with the line that says what it is for.

A verb has two functions: ``NAME_arguments(parser)`` declares its arguments, and ``NAME(args)`` returns the
exit status. They stand in the module of this room that has the verb's name, or in the one that ``MODULES``
names; it is imported only when the verb is typed.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn

from pytest_agenteval.text.errors import AgentEvalError, UsageMistake, did_you_mean, nearest_names
from pytest_agenteval.text.redaction import KNOWN_SECRETS

VERBS: Mapping[str, str] = {
    "init": "write a first suite around your agent or an example",
    "validate": "check task files and list every problem in them",
    "schema": "print a JSON Schema",
    "runs": "list stored runs, newest first",
    "show": "show a trial: its grades, messages, tool calls and file changes",
    "import": "import another benchmark's suite and runs from your copy",
    "view": "show runs in the browser, also while they are running",
    "report": "print stored runs as tables, side by side, or write report files",
    "sql": "query stored runs with SQL: trials, grades, calls, messages",
    "merge": "merge the runs of several shards or machines into one",
    "cassettes": "update recordings made by an earlier version",
    "compare": "compare two runs: is the new one better or worse?",
    "baseline": "save a run as a baseline file that later runs are compared with",
    "gate-check": "estimate how often a gate fails a run in which nothing changed",
    "trend": "show a suite's scores over its last runs, and tasks to check",
    "calibrate": "measure how well judges agree with labels (starts pytest)",
    "review": "score a run's trials yourself, to get labels for calibrate",
    "guide": "print rules for coding agents that work on evals (AGENTS.md)",
    "leaks": "find inputs and expected values of tasks in prompts",
    "promote": "make a miss a failure in buckets that always passed",
    "demote": "undo a promotion",
    "feedback": "summarize a run's failures for whoever changes the prompts",
    "improve": "let a coding agent change prompts; held-out tasks confirm it",
    "audit": "check that graders accept references and catch planted mistakes",
}

# Verbs that share another verb's module.
MODULES: Mapping[str, str] = {
    "audit": "validate",
    "baseline": "compare",
    "demote": "promote",
    "feedback": "improve",
    "guide": "project_files",
    "import": "init",
    "leaks": "validate",
    "show": "report",
    "sql": "runs",
    "trend": "runs",
}

# Verbs without ``--json``, and why.
WITHOUT_JSON: Mapping[str, str] = {
    "view": "it serves pages; use `agenteval runs --json` or `agenteval report --json`",
    "schema": "its output is JSON already",
    "cassettes": "it changes files and prints one line for each",
}

# The exit status that shells report for a command that Ctrl-C ended.
INTERRUPTED = 130

# The argument that holds what follows ``--``, for verbs that declare a default for it.
AFTER_DASHES = "pytest_options"


def verb_function(verb: str, part: str = "") -> Callable[..., Any]:
    """Import a verb's function, or with ``_arguments`` the one that declares its arguments."""
    name = verb.replace("-", "_")
    # import is a keyword, which no module and no function can have as its name.
    module = MODULES.get(verb, f"{name}_" if iskeyword(name) else name)
    own = f"{name}{part}" if part or not iskeyword(name) else f"{name}_"
    function: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), own)
    return function


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb that the arguments name, and return the exit status.

    0; 1 where something is wrong with what was looked at; 2 for a mistake in use; 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every console knows Hangul
        sys.stdout.reconfigure(errors="backslashreplace")
    # Verbs print texts of runs, and values of secret variables may stand there.
    KNOWN_SECRETS.know_environment()
    try:
        typed = sys.argv[1:] if argv is None else argv
        if not typed:
            raise UsageMistake("name a verb, as in `agenteval runs`; agenteval --help lists the verbs")
        _refuse_unknown_verb(typed)
        args = _verbs_parser().parse_args(argv)
        status: int = verb_function(args.verb)(args)
        return status
    except AgentEvalError as mistake:
        print(f"agenteval: {KNOWN_SECRETS.text(str(mistake))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("agenteval: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        # Python would complain there at exit that it cannot flush the output.
        sys.stderr.close()
        return 0


# What argparse writes for a value that is not among an argument's choices.
_INVALID_CHOICE = re.compile(
    r"argument (?P<argument>.*): invalid choice: '(?P<word>[^']*)' \(choose from (?P<choices>.*)\)"
)


class _VerbParser(argparse.ArgumentParser):
    """The parser of the verb ``name``, whose arguments are declared when it is typed, and not before.

    Some arguments come from installed benchmarks, which no other verb should pay for or stumble over.
    """

    name = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Declare the arguments and parse them; the parser of all verbs calls this."""
        if self.name:
            name, self.name = self.name, ""
            verb_function(name, "_arguments")(self)
        args, behind = self._split(args)
        # `import` hands the rest of its arguments, and their options, to an importer.
        if all(action.nargs != argparse.REMAINDER for action in self._actions):
            self._refuse_unknown_option(args or ())
        namespace, unknown = super().parse_known_args(args, namespace)
        if behind is not None:
            setattr(namespace, AFTER_DASHES, tuple(behind))
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        """Name the nearest word, where argparse would list all of them in one line."""
        found = _INVALID_CHOICE.match(message)
        if found is None:
            super().error(message)
        choices = re.findall(r"[\w-]+", found["choices"])
        hint = did_you_mean(found["word"], choices)
        raise UsageMistake(
            f"{self._verb} {found['argument']}: expected one of {nearest_names(found['word'], choices)}; "
            f"found {found['word']!r}{hint and f'; {hint}'}"
        )

    @property
    def _verb(self) -> str:
        return self.prog.partition(" ")[2]

    def _refuse_unknown_option(self, args: Iterable[str]) -> None:
        """Raise UsageMistake before argparse looks for what is missing: that is not the first mistake."""
        options = [name for action in self._actions for name in action.option_strings]
        for arg in args:
            name = arg.partition("=")[0]
            is_option = name.startswith("--") and len(name) > 2 and " " not in name
            if is_option and not any(option.startswith(name) for option in options):
                hint = did_you_mean(name, options) or f"agenteval {self._verb} --help lists its options"
                raise UsageMistake(f"{self._verb} has no option {name}; {hint}")

    def _split(self, args: Any) -> tuple[Any, list[str] | None]:
        """Take off what stands behind ``--``, for a verb that hands it on; argparse would parse it."""
        if self.get_default(AFTER_DASHES) is None or not args or "--" not in args:
            return args, None
        place = args.index("--")
        return args[:place], args[place + 1 :]


def _refuse_unknown_verb(argv: Sequence[str]) -> None:
    """Raise UsageMistake for an unknown verb: argparse would list all verbs, and not the nearest."""
    verb = argv[0] if argv else ""
    if verb and not verb.startswith("-") and verb not in VERBS:
        hint = did_you_mean(verb, VERBS) or "agenteval --help lists the verbs"
        raise UsageMistake(f"there is no verb {verb!r}; {hint}")


def _verbs_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agenteval", description="Check tasks, and read and compare runs. pytest runs the tasks."
    )
    # The list of verbs keeps its line ends.
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    widest = max(map(len, VERBS))
    lines = (f"  {verb:{widest}}  {purpose}" for verb, purpose in VERBS.items())
    # As an epilog: argparse itself would break verbs with long names into two lines.
    parser.epilog = "\n".join(["verbs:", *lines])
    verbs = parser.add_subparsers(
        required=True,
        metavar="VERB",
        parser_class=_VerbParser,
        help="a verb below; agenteval VERB --help explains it",
    )
    for verb, purpose in VERBS.items():
        sentence = f"{purpose[0].upper()}{purpose[1:]}"
        own = verbs.add_parser(verb, description=sentence if sentence.endswith("?") else f"{sentence}.")
        # Declared later: --help lists all verbs at once, without importing the module of any.
        own.name = verb
        own.set_defaults(verb=verb)
    return parser
