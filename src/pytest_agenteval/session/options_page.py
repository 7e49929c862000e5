"""The reference page of the options, docs/options.md, made from their table."""

from __future__ import annotations

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


if __name__ == "__main__":
    print(options_page())
