"""The job summary: what the screen says, in which no foreign text is taken for markup."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.reports.markdown_report import append_summary, report_markdown, summary_markdown
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.formatting import StyledLine, escape_markdown

from .runs import MIXED, PLANNED, store_run, trial

SUMMARY = r"""## Agent evals

wall unknown, agents 0.0 s

| suite | score | 95 % | tasks passed | trials | agents |
| --- | ---: | ---: | ---: | ---: | ---: |
| s | 0.58 | - | 2 of 3 | 5 of 8 | 0.0 s |

rules: rule-based, no LLM

pass^2: s 0.00 (2 of 4 tasks)

s index 0.5

| s, worst first (2 buckets) | score | 95 % | tasks passed |
| --- | ---: | ---: | ---: |
| y | 0.00 | - | 0 of 1 |
| x | 0.88 | - | 2 of 2 |

- 1 of s's 8 trials errored, in no average: 1 provider
- 2 of s's 8 trials not run

gate: broken

<details><summary>all buckets</summary>

### s with rules: rule-based, no LLM (capability)

| bucket | tasks | passed | score | 95 % | trials | full | pass@1 | pass^2 | pass@2 |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| x | 2 | 2 | 0.88 | - | 3 of 4 | 0.67 | 0.75 | 0.00 | 1.00 |
| y | 2 | 0 | 0.00 | - | 2 of 4 | 0.00 | 0.00 | 0.00 | 0.00 |
| all | 4 | 2 | 0.58 | - | 5 of 8 | 0.40 | 0.50 | 0.00 | 0.50 |

- 2 of 3 decided tasks passed; full score in 0.40 of trials
- 1 errored, in no average: 1 provider
- 2 not run
- pass^2 and pass@2 are over the 2 of 4 tasks with 2 averaged trials
- agents 0.0 s

</details>

<details><summary>4 trials not passed</summary>

- **MISSED 0.00** s/c\[rules-1\]: g 0.00: found 0.0
- **MISSED 0.00** s/c\[rules-2\]: g 0.00: found 0.0
- **MISSED 0.50** s/a\[rules-2\]: g 0.50: found 0.5
- **ERROR** s/b\[rules-2\]: provider: 503 from the provider

</details>

run: RUN
"""


def one_line(text: str) -> list[StyledLine]:
    """Give what others put into a summary."""
    return [StyledLine(text)]


def test_the_summary_is_the_screen_with_tables_and_misses_folded(tmp_path: Path) -> None:
    """The same figures and words as in the terminal, a total and gates below."""
    run = store_run(tmp_path, MIXED, PLANNED)

    summary = summary_markdown(view_of(run), *map(one_line, ("s index 0.5", "gate: broken")))

    assert summary == SUMMARY.replace("RUN", escape_markdown(str(run.folder)))


def test_foreign_text_is_no_markup(tmp_path: Path) -> None:
    """A bucket cannot add a column, close the fold, or run a script."""
    hostile = "a|b</details><script>alert(1)</script>`c`\n| **d** [e](f) ~g~ $h$ &amp;"
    view = view_of(store_run(tmp_path, [trial(hostile, 1, 0.5, hostile), trial("b", 1, 1.0)]))
    text = summary_markdown(view)
    rows = [line for line in text.splitlines() if line.startswith("| ")]

    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [7] * 3 + [5] * 3 + [9] * 5
    fold = ["<details>", "<summary>", "</summary>", "</details>"]
    assert re.findall(r"<[^>]*>", text) == fold * 2
    assert escape_markdown("a|b`*_[&<") == r"a\|b\`\*\_\[&amp;&lt;"


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("thanks @octocat, (@o/team)", r"@\w"),
        ("#123 and org/repo#12 or GH-12, gh-3", r"#\w|(?i:gh-\d)"),
        ("see https://e.x, ftp://e.x and www.e.x", r"://|www\.\w"),
        ("mail mina@e.example", r"@\w"),
        ("<!-- hidden --> <img src=x onerror=y> <b>", r"<"),
        ("![a](https://e.x/i.png) [b](//e.x)", r"://|(?<!\\)[\[\]!]"),
    ],
)
def test_foreign_text_links_nothing_in_any_markdown(tmp_path: Path, text: str, linked: str) -> None:
    """What an agent answered can be in a report that somebody pastes into a pull request."""
    run = store_run(tmp_path, [replace(trial("a", 1, 0.5), grades=(Grade("g", 0.5, text),))])
    pages = [summary_markdown(view_of(run)), report_markdown(report_source([run]))]

    for page in pages:
        (line,) = (line for line in page.splitlines() if line.startswith("- **MISSED 0.50**"))
        assert not re.search(linked, line)
        shown = html.unescape(re.sub(r"\\(.)", r"\1", line)).replace("\u200b", "")
        assert shown.endswith(text)


def test_an_address_with_a_model_is_no_mention() -> None:
    """``claude@short`` is a model with a variant, and stays one word for whoever copies it."""
    assert escape_markdown("claude@short-2") == "claude@short-2"


def test_a_summary_is_added_to_what_is_there(tmp_path: Path) -> None:
    """What the step's other commands have written stays."""
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    append_summary(path, "생일\n")

    assert path.read_text(encoding="utf-8") == "before\n생일\n"


def test_many_misses_are_counted_not_listed(tmp_path: Path) -> None:
    """Fifty are enough to see what is wrong."""
    view = view_of(store_run(tmp_path, [trial(f"t{number:03}", 1, 0.0) for number in range(60)]))
    text = summary_markdown(view)

    assert text.count("- **MISSED") == 50
    assert "- and 10 more\n" in text


def test_what_could_not_be_read_of_a_run_is_told(tmp_path: Path) -> None:
    """Figures that lack a trial for it must not look whole on the page that a team reads."""
    run = store_run(tmp_path, [trial("a", 1, 1.0)])
    with (run.folder / "journal-main.jsonl").open("a", encoding="utf-8") as journal:
        journal.write("{}\n")

    assert "- journal-main.jsonl:" in summary_markdown(view_of(load_run(run.folder)))
