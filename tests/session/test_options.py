"""One row of a table makes an option: flag, environment variable, pyproject key, refusal, reference page."""

from __future__ import annotations

import re
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

You find here every option of a run. Set an option in one of three places: the command line, the
environment, or `[tool.agenteval]` in `pyproject.toml`. The first of them wins; the task and its suite's
`defaults` come last. The names follow from the option: `--agent-max-cost` is `AGENTEVAL_MAX_COST` and
`max_cost`.

- Paths are relative to the working folder, in `pyproject.toml` to that file.
- A value with commas is a list; in `pyproject.toml` it may be a TOML list. Options marked + may be repeated.
- RUN is a path, a name, the start of a name, `latest` or `MODEL@YYYYMMDD`.
- A wrong value ends pytest with exit status 4 before any trial starts, and the message names its place.

<!-- Made by `python -m tests.session.test_options`. -->
"""

GROUPS = {
    "What runs": (
        *("model", "prompt", "repetitions", "max_trials", "split", "sample", "only", "shard", "audit"),
        *("dry_run", "executor", "concurrency", "seed"),
    ),
    "Judges and users": ("judge", "self_judge", "user"),
    "Recordings": ("record", "record_chat", "live"),
    "Limits of a trial": ("max_steps", "timeout", "trial_tokens", "trial_cost"),
    "Budget of a run": ("max_cost", "max_tokens"),
    "Requests to a model": (
        "requests_at_once",
        "requests_per_minute",
        "tokens_per_minute",
        "patience_seconds",
    ),
    "Comparison and exit status": ("baseline", "gate", "strict"),
    "Earlier runs": ("resume", "reuse", "regrade"),
    "Output": (*("report", "comment", "annotations", "progress", "results", "run_name", "keep_workspaces"),),
    "Only in pyproject.toml": ("models", "prices", "redact"),
}
"""The options of each heading, by their names in pyproject.toml."""


def options_page() -> str:
    """Give docs/reference/options.md, in Markdown."""
    rows = {row.name: row for row in Settings.rows()}
    parts = [HEAD]
    for group, options in GROUPS.items():
        parts.append(f"## {group}\n\n| option | meaning |\n|---|---|")
        for row in (rows.pop(name) for name in options):
            shown = f"{row.flag}={row.metavar}" if row.metavar else row.flag
            name = f"`{shown}`{' +' * row.several}" if row.flag else f"`{row.name}`"
            meaning = re.sub(r"\(docs/(\S+)\)", r"([more](../\1))", row.help[0].upper() + row.help[1:])
            parts.append(f"| {name} | {meaning} |".replace("auto|no", r"auto\|no"))
        parts.append("")
    assert not rows
    return "\n".join(parts).rstrip()


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
