"""One row of a table makes an option: flag, environment variable, pyproject key, refusal, reference page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.plan import RecordMode
from pytest_agenteval.session.options import COUNT, Option, OptionValues, RawValue
from pytest_agenteval.session.settings import CHAT_MODES, Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.text.errors import UsageMistake

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs/reference/options.md"
FLAGGED = [row for row in Settings.rows() if row.flag]


def of(rows: list[Option[Any]]) -> list[str]:
    """Name rows for pytest."""
    return [row.name for row in rows]


HEAD = """# Options

Every option can be said in three places; the first that says anything decides: the command line, the
environment, and `[tool.agenteval]` in `pyproject.toml`. What a suite's `defaults` or a task say comes
after them. Relative paths start from the working folder, those in `pyproject.toml` from that file. A
value that cannot be obeyed ends the run with exit status 4 before anything is tried, and names the place
where it stands. A variable whose name is nearly that of an option is not read, and a line says so. Lists
are comma lists; in `pyproject.toml` they may be lists of texts.

<!-- Made by `python -m tests.session.test_options`. -->
"""


def options_page() -> str:
    """Give docs/reference/options.md, in Markdown."""
    parts = [HEAD]
    for row in Settings.rows():
        if row.flag:
            flag = f"{row.flag}={row.metavar}" if row.metavar else row.flag
            several = "; may be given several times" if row.several else ""
            parts += [
                f"## `{flag}`\n",
                f"{row.help[0].upper()}{row.help[1:]}.\n",
                f"- expected: {row.expected}{several}",
                f"- environment: `{row.variable}`",
                f"- pyproject.toml: `{row.name}`\n",
            ]
    parts.append("## In pyproject.toml alone\n")
    for row in Settings.rows():
        if not row.flag:
            parts.append(f"- `{row.name}`: {row.help}; expected: {row.expected}")
    return "\n".join(parts)


def test_the_reference_page_says_what_the_table_says() -> None:
    """docs/reference/options.md is never behind: ``python -m tests.session.test_options`` makes it."""
    assert PAGE.read_text(encoding="utf-8") == options_page() + "\n"


VALUES = {
    "N": "3",
    "S": "3",
    "USD": "$2.5",
    "MODE": "all",
    "SPLIT": "all",
    "auto|no": "no",
    "FILE": "report.md",
    "NAME=PATH": "short=x.md",
    "": "true",
    "KEY=VALUE": "score=1",
    "DTYPE": "float16",
    "DEVICE": "cuda:1",
    "BITS": "4bit",
    "SHARE": "0.5",
    "I/N": "2/4",
}
"""A value of each kind, by the name that stands for it in the help."""


def test_each_option_can_be_said_in_three_places(
    pytester: pytest.Pytester, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key, a variable and a flag set the same; a flag hides a variable, which hides a key."""
    (pytester.path / "x.md").write_text("Be brief.")
    alone = [row for row in FLAGGED if row.name in ("audit", "shard", "resume", "reuse")]
    values = {row: VALUES.get(row.metavar, "latest") for row in FLAGGED}
    values |= {row: "before" for row in FLAGGED if row.name == "run_name"}
    project = pytester.path / "pyproject.toml"

    def chosen(*args: str) -> dict[str, object]:
        settings = read_settings(pytester.parseconfig(*args))
        return {row.name: getattr(settings, row.attribute) for row in FLAGGED}

    # What sets or refuses others of them is given alone.
    for rows in ([row for row in FLAGGED if row not in alone], *([row] for row in alone)):
        texts = {row: values[row] for row in rows}
        unsaid = chosen()
        keys = "".join(f'{row.name} = "{text}"\n' for row, text in texts.items())
        project.write_text(f"[tool.agenteval]\n{keys}")
        from_project = chosen()
        project.unlink()
        with monkeypatch.context() as environment:
            for row, text in texts.items():
                environment.setenv(row.variable, text)
            from_environment = chosen()
        flags = (f"{row.flag}={text}" if row.metavar else str(row.flag) for row, text in texts.items())
        assert [row.name for row in rows if from_project[row.name] == unsaid[row.name]] == []
        assert from_project == from_environment == chosen(*flags)

    project.write_text('[tool.agenteval]\nconcurrency = "nonsense"\n')
    monkeypatch.setenv("AGENTEVAL_CONCURRENCY", "4")
    assert chosen()["concurrency"] == 4
    assert chosen("--agent-concurrency=5")["concurrency"] == 5


def test_a_new_option_is_one_row(tmp_path: Path) -> None:
    """A row has its flag, variable and refusal, and is read with its own type."""

    class Wider(OptionValues):
        most_tokens: Option[int | None] = Option("tokens of each trial", COUNT, None)

    row = Wider.most_tokens
    assert (row.flag, row.variable) == ("--agent-most-tokens", "AGENTEVAL_MOST_TOKENS")
    assert Wider().most_tokens is None
    assert Wider({"most_tokens": row.parse_value(RawValue("7", "here", tmp_path))}).most_tokens == 7
    with pytest.raises(UsageMistake, match=r"^here: expected a whole number, 1 or more; found '0'$"):
        row.parse_value(RawValue("0", "here", tmp_path))


def test_the_modes_of_recording_are_those_of_a_plan() -> None:
    """The table may not import the records, so it lists the modes itself."""
    assert set(CHAT_MODES) == set(RecordMode.__args__)


def test_declaring_the_options_imports_nothing_but_the_table() -> None:
    """An installed plugin costs every pytest run this: the standard library, and two modules of ours."""
    code = "import sys, pytest, pytest_agenteval.session.settings as s; print(*[m for m in sys.modules if m.startswith('pytest_agenteval')])"  # noqa: E501
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(found.split()) == {
        "pytest_agenteval",
        "pytest_agenteval.session",
        "pytest_agenteval.session.options",
        "pytest_agenteval.session.settings",
    }


if __name__ == "__main__":
    print(options_page())
