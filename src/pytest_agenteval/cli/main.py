"""The command ``agenteval``: one verb, one function."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pytest_agenteval.cli.verbs import VERBS, function_name, verb_module
from pytest_agenteval.processes.garbage import garbage_rarely_collected
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake, nearest
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

INTERRUPTED = 130
"""What shells give for a command that Ctrl-C has ended."""

BEHIND = "pytest_options"
"""The argument that holds what stands behind ``--``, of verbs that declare a default for it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say and give the exit status.

    0; 1 where something is wrong with what was looked at; 2 for a mistake in use; 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every console knows Hangul
        sys.stdout.reconfigure(errors="backslashreplace")
    KNOWN_SECRETS.know_environment()
    try:
        _refuse_unknown_verb(sys.argv[1:] if argv is None else argv)
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
        args, behind = self._split(args)
        namespace, unknown = super().parse_known_args(args, namespace)
        if behind is not None:
            setattr(namespace, BEHIND, tuple(behind))
        return namespace, unknown

    def _split(self, args: Any) -> tuple[Any, list[str] | None]:
        """Take off what stands behind ``--``, for a verb that hands it on: argparse would look for flags."""
        if self.get_default(BEHIND) is None or not args or "--" not in args:
            return args, None
        place = args.index("--")
        return args[:place], args[place + 1 :]


def _refuse_unknown_verb(argv: Sequence[str]) -> None:
    """Raise UsageMistake for a verb that there is not: argparse would list all of them and no nearest."""
    verb = argv[0] if argv else ""
    if verb and not verb.startswith("-") and verb not in VERBS:
        hint = nearest(verb, VERBS) or "agenteval --help lists the verbs"
        raise UsageMistake(f"there is no verb {verb!r}; {hint}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agenteval", description="Look at tasks and runs; pytest runs them."
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    widest = max(map(len, VERBS))
    lines = (f"  {verb:{widest}}  {purpose}" for verb, purpose in VERBS.items())
    parser.epilog = "\n".join(["verbs:", *lines])  # argparse breaks those with a long name into two lines
    verbs = parser.add_subparsers(
        required=True, metavar="VERB", parser_class=_VerbParser, help="see below; agenteval VERB --help"
    )
    for verb, purpose in VERBS.items():
        sentence = f"{purpose[0].upper()}{purpose[1:]}"
        of_verb = verbs.add_parser(verb, description=sentence if sentence.endswith("?") else f"{sentence}.")
        of_verb.declare = partial(_declare, verb)
        of_verb.set_defaults(verb=partial(_carry_out, verb))
    return parser


def _declare(verb: str, parser: argparse.ArgumentParser) -> None:
    verb_module(verb).add_arguments(parser)


def _carry_out(verb: str, args: argparse.Namespace) -> int:
    with garbage_rarely_collected():  # most of what a verb makes are the trials of a run, which stay
        status: int = getattr(verb_module(verb), function_name(verb))(args)
    return status
