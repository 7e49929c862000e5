"""The command ``agenteval``: one verb, one function."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from pytest_agenteval.cli.calibrate import add_arguments
from pytest_agenteval.cli.import_ import add_arguments as add_import_arguments
from pytest_agenteval.errors import AgentEvalError
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS

INTERRUPTED = 130
"""What shells give for a command that Ctrl-C has ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say and give the exit status.

    0; 1 where something is wrong with what was looked at; 2 for a mistake in use; 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every console knows Hangul
        sys.stdout.reconfigure(errors="backslashreplace")
    KNOWN_SECRETS.know_environment()
    try:
        args = _parser().parse_args(argv)
        verb: Callable[[argparse.Namespace], int] = args.verb
        return verb(args)
    except AgentEvalError as mistake:
        print(f"agenteval: {KNOWN_SECRETS.text(str(mistake))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("agenteval: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        sys.stderr.close()
        return 0


class _VerbParser(argparse.ArgumentParser):
    """The parser of one verb: ``declare`` adds its arguments when the verb is typed, and not before.

    Some arguments come from installed benchmarks, which no other verb should pay for or stumble over.
    """

    declare: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Declare the arguments, and parse them: this is what the parser of all verbs calls."""
        if self.declare is not None:
            declare, self.declare = self.declare, None
            declare(self)
        return super().parse_known_args(args, namespace)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agenteval", description="Look at tasks and runs; pytest runs them."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=_VerbParser)
    validate = verbs.add_parser("validate", help="say everything that is wrong with task files")
    validate.add_argument("paths", nargs="+", metavar="PATH")
    validate.set_defaults(verb=_validate)
    schema = verbs.add_parser("schema", help="print a JSON Schema")
    run_files = ("run", "planned", "journal", "transcript", "text")
    schema.add_argument("what", choices=("task", "suite", "calibration", "tools", "report", *run_files))
    schema.set_defaults(verb=_schema)
    _add_verb(verbs, "runs", "list the runs that are kept, newest first")
    _add_verb(verbs, "show", "one trial: why it ended so, what was said and called, what it changed")
    import_ = verbs.add_parser(
        "import", help="bring in another benchmark's suite and runs, from your own copy of it"
    )
    add_import_arguments(import_)
    import_.set_defaults(verb=_import)
    _add_verb(verbs, "report", "stored runs as tables, side by side, or as a benchmark's files")
    _add_verb(verbs, "sql", "ask stored runs in SQL: trials, grades, calls, messages")
    _add_verb(verbs, "compare", "two runs: is the new one better, worse, or can nobody tell?")
    _add_verb(verbs, "baseline", "keep a run as the file that later runs are compared with")
    _add_verb(verbs, "trend", "a suite over its last runs, and the tasks that they make suspect")
    calibrate = verbs.add_parser("calibrate", help="start pytest on labels: do judges agree with them?")
    add_arguments(calibrate)
    calibrate.set_defaults(verb=_calibrate)
    _add_verb(verbs, "promote", "buckets that always passed: from now on a miss fails")
    _add_verb(verbs, "demote", "take a promotion back")
    return parser


def _add_verb(verbs: Any, name: str, help: str) -> None:
    """Add the verb of the module of its name, which is imported when the verb is typed, and not before."""

    def module() -> Any:
        return import_module(f"pytest_agenteval.cli.{name}")

    parser = verbs.add_parser(name, help=help)
    parser.declare = lambda parser: module().add_arguments(parser)
    parser.set_defaults(verb=lambda args: getattr(module(), name)(args))


def _validate(args: argparse.Namespace) -> int:
    from pytest_agenteval.cli.validate import validate

    return validate(args.paths)


def _schema(args: argparse.Namespace) -> int:
    from pytest_agenteval.cli.schema import print_schema

    return print_schema(args.what)


def _import(args: argparse.Namespace) -> int:
    from pytest_agenteval.cli.import_ import import_

    return import_(args)


def _calibrate(args: argparse.Namespace) -> int:
    from pytest_agenteval.cli.calibrate import calibrate

    return calibrate(args)


def _demote(args: argparse.Namespace) -> int:
    from pytest_agenteval.cli.demote import demote

    return demote(args)
