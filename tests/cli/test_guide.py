"""``agenteval guide``: one page of rules whose commands exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from pytest_agenteval import __version__
from pytest_agenteval.cli.main import VERBS, _verbs_parser, main
from pytest_agenteval.cli.project_files import guide_page
from pytest_agenteval.session.settings import Settings

PYTEST_S_OWN = {"-k"}


def test_the_page_is_short_and_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """At most 60 lines, in which whoever has an old copy can see so."""
    assert main(["guide"]) == 0
    page = capsys.readouterr().out
    assert page.count("\n") <= 60
    assert f"pytest-agenteval {__version__};" in page
    assert max(map(len, page.splitlines())) <= 132


@pytest.mark.parametrize("command", guide_page().commands)
def test_each_command_can_be_given(command: str) -> None:
    """The verb is there, and takes these arguments; so does pytest."""
    program, *words = shlex.split(command)
    if program == "agenteval":
        assert _verbs_parser().parse_args(words).verb
    else:
        flags = {f"--agent-{row.name}" if row.flag is None else row.flag for row in Settings.rows()}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= flags | PYTEST_S_OWN


def test_each_verb_and_option_of_the_text_exists() -> None:
    """What is named between the commands is there too."""
    text = guide_page().markdown
    assert {*re.findall(r"`agenteval ([a-z-]+)", text)} <= {*VERBS}
    assert {*_flags(text)} <= {"--json", "--split", *(row.flag for row in Settings.rows() if row.flag)}


def _flags(text: str) -> Iterator[str]:
    prose = "".join(text.split("```")[::2])
    yield from re.findall(r"`(--[a-z-]+)", prose)
