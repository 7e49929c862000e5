"""What pytest prints and reports, without secrets and without workflow commands that agents wrote."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from pytest_agenteval.chat.models import known_key_names
from pytest_agenteval.session.options import PROJECT
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, in_actions, without_commands, workflow_command
from pytest_agenteval.text.redaction import KNOWN_SECRETS

HEADER_TABLES = ("extra_headers", "headers", "default_headers")


def learn_secrets(settings: Settings) -> None:
    """Learn this session's secrets: from the environment, the tables of models and ``redact``'s patterns."""
    KNOWN_SECRETS.forget()
    KNOWN_SECRETS.know_environment()
    KNOWN_SECRETS.know_variables(known_key_names())
    for table in settings.aliases.values():
        if isinstance(table, Mapping):
            KNOWN_SECRETS.know_variables([str(table.get("api_key_env", ""))])
            KNOWN_SECRETS.know_address(str(table.get("api_base", "")))
            tables = (table.get(name) for name in ("params", "extra_body"))
            for place in (table, *(inner for inner in tables if isinstance(inner, Mapping))):
                KNOWN_SECRETS.know_named(place)
                for name in HEADER_TABLES:
                    if isinstance(place.get(name), Mapping):
                        KNOWN_SECRETS.know_headers(place[name])
    for pattern in settings.redact:
        try:
            compiled = re.compile(pattern)
        except re.error as wrong:
            raise UsageMistake(
                f"{PROJECT}.redact: expected regular expressions; {pattern!r}: {wrong}"
            ) from None
        if compiled.search(""):
            raise UsageMistake(
                f"{PROJECT}.redact: {pattern!r} matches the empty text, so it would match everywhere"
            )
        KNOWN_SECRETS.know_patterns([pattern])


def hide_in_report(report: pytest.TestReport) -> None:
    """Take secrets out of a report: terminal, JUnit and other plugins read nothing else."""
    if report.sections:
        report.sections = [(title, KNOWN_SECRETS.text(text)) for title, text in report.sections]
    if report.user_properties:
        values: list[Any] = [value for _, value in report.user_properties]
        are_texts = set(map(type, values)) == {str}
        # Nearly always no value holds a secret, and the list stays as it is.
        if not (are_texts and KNOWN_SECRETS.all_clean(dict(zip(values, values, strict=True)))):
            cleaned = [(name, KNOWN_SECRETS.value(value)) for name, value in report.user_properties]
            report.user_properties = cleaned
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.longrepr = (path, line, KNOWN_SECRETS.text(reason))
    elif report.longrepr is not None:
        report.longrepr = without_secrets(report.longrepr)
    if hasattr(report, "wasxfail"):
        report.wasxfail = KNOWN_SECRETS.text(report.wasxfail)


def hide_in_warning(recorded: warnings.WarningMessage) -> None:
    message = recorded.message
    if isinstance(message, str):
        recorded.message = KNOWN_SECRETS.text(message)
    else:
        message.args = without_secrets(message.args)


def without_secrets(value: Any) -> Any:
    """Take secrets out of pytest's representation of an exception, whose parts are changed in place."""
    if isinstance(value, str):
        return KNOWN_SECRETS.text(value)
    if isinstance(value, list | tuple):
        return type(value)(map(without_secrets, value))
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            setattr(value, field.name, without_secrets(getattr(value, field.name)))
    return value


def hide_on_terminal(reporter: Any) -> None:
    """Take secrets out of everything printed from now on: warnings, headings, other plugins' lines."""
    # Under GitHub Actions the filter also disables workflow commands, as the output of agents is printed too.
    writer = getattr(reporter, "_tw", None)
    if writer is None or "write" in vars(writer):
        return
    write, read_by_actions = writer.write, in_actions()

    def clean(message: str, **markup: Any) -> None:
        text = KNOWN_SECRETS.text(message)
        write(without_commands(text) if read_by_actions else text, **markup)

    writer.write = clean


def write_workflow_commands(reporter: Any, lines: Iterable[str]) -> None:
    """Print workflow commands of our own, past the filter of ``hide_on_terminal``."""
    reporter.ensure_newline()
    writer = reporter._tw
    for line in lines:
        type(writer).write(writer, f"{KNOWN_SECRETS.text(line)}\n", flush=True)


def hide_in_log_file(handler: Any) -> None:
    """Take secrets out of the file of ``--log-file``; without one, pytest writes to ``os.devnull``."""
    if getattr(handler, "baseFilename", os.devnull) == os.devnull or "format" in vars(handler):
        return
    write_out = handler.format
    handler.format = lambda record: KNOWN_SECRETS.text(write_out(record))


def hide_in_xml(xml: Any) -> None:
    """Take secrets out of the session's properties in JUnit's file, which fixtures record."""
    xml.global_properties[:] = [
        (name, KNOWN_SECRETS.text(str(value))) for name, value in xml.global_properties
    ]


def stop_commands(config: pytest.Config, resuming: str) -> None:
    """Make the GitHub Actions runner ignore workflow commands until it reads the word ``resuming``."""
    # While trials run, programs that agents start write to the log of the runner. pytest sees nothing of that
    # output under ``-s`` and between tests, so its filter is not enough.
    if in_actions():
        _write_command(config, workflow_command("stop-commands", resuming))


def resume_commands(config: pytest.Config, resuming: str) -> None:
    """Make the runner obey commands again, once all trials have ended."""
    if in_actions():
        # The command needs a line of its own: the output before it may not end with a line break.
        _write_command(config, f"\n{workflow_command(resuming, '')}")


def _write_command(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):  # the standard output of a worker is xdist's
        os.write(2, f"{line}\n".encode())
    else:
        write_workflow_commands(reporter, [line])


def write_line(reporter: Any, line: StyledLine) -> None:
    looks = {
        "bold": {"bold": True},
        "dim": {"light": True},
        "red": {"red": True},
        "yellow": {"yellow": True},
        "green": {"green": True},
        "cyan": {"cyan": True},
    }
    reporter.write_line(line.text, **looks.get(line.style, {}))
