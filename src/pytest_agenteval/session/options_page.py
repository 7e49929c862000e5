"""The reference page of the options, made of their table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agenteval.session.options import Option
from pytest_agenteval.session.settings import Settings

HEAD = """# Options

Every option can be said in three places; the first that says anything decides: the command line, the
environment, and `[tool.agenteval]` in `pyproject.toml`. What a suite's `defaults` or a task say comes
after them. Relative paths start from the working folder, those in `pyproject.toml` from that file. A
value that cannot be obeyed ends the run with exit status 4 before anything is tried, and names the place
where it stands. Lists are comma lists; in `pyproject.toml` they may be lists of texts.

<!-- Made by `python -m pytest_agenteval.session.options_page`. -->
"""


def options_page() -> str:
    """Give docs/options.md, in Markdown."""
    rows = Settings.rows()
    parts = [HEAD, *(_section(row) for row in rows if row.flag)]
    parts += ["## In pyproject.toml alone\n", *(_project_only(row) for row in rows if not row.flag)]
    return "\n".join(parts)


def _section(row: Option[Any]) -> str:
    flag = f"{row.flag}={row.metavar}" if row.metavar else str(row.flag)
    return "\n".join((f"## `{flag}`", "", f"{_sentence(row.help)}", "", *_places(row), ""))


def _places(row: Option[Any]) -> Iterator[str]:
    yield f"- expected: {row.expected}" + ("; may be given several times" if row.several else "")
    yield f"- environment: `{row.variable}`"
    yield f"- pyproject.toml: `{row.name}`"


def _project_only(row: Option[Any]) -> str:
    return f"- `{row.name}`: {row.help}; expected: {row.expected}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    print(options_page())
