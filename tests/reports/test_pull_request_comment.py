"""The comment on a pull request: verdict, table, three worst; bounded, and foreign text acts on nothing."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.reports.markdown_report import comment_markdown
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.store.run_folder import RunSuite
from pytest_agenteval.store.run_reader import Run

from .runs import MIXED, key, store_run, trial

COMMENT = """\
### 2 of 3 tasks passed; 1 trial errored.

**gate: broken: s**

s index 0.5

wall unknown, agents 0.0 s

| suite | score | 95 % | tasks passed | trials |
| --- | ---: | ---: | ---: | ---: |
| s | 0.58 | - | 2 of 3 | 5 of 6 |

rules: rule-based, no LLM

- 1 of s's 6 trials errored, in no average: 1 provider

<details><summary>3 tasks with trials not passed</summary>

**MISSED 0.00** `s/c[rules-1]` in `evals/t.yaml:3`\\
`g 0.00: found 0.0`

**MISSED 0.50** `s/a[rules-2]` in `evals/t.yaml:1`\\
`g 0.50: found 0.5`

**ERROR** `s/b[rules-2]` in `evals/t.yaml:2`\\
`provider: 503 from the provider`

</details>
"""


def comment(run: Run, *remarks: str, old: Run | None = None) -> str:
    """Give the comment on a run, compared with an older one."""
    comparison: RunComparison | None = compare_runs(compared_run(old), compared_run(run)) if old else None
    return comment_markdown(run, view_of(run), TaskFileLines(run.folder.parent), comparison, remarks)


def test_without_a_baseline_it_says_what_passed(tmp_path: Path) -> None:
    """Figures first, a broken gate in bold, the worst folded with reason, file and line."""
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/t.yaml").write_text("- id: a\n- id: b\n- id: c\n", encoding="utf-8")
    run = store_run(tmp_path, [replace(each, file="evals/t.yaml") for each in MIXED])

    assert comment(run, "gate: broken: s", "s index 0.5") == COMMENT


def test_with_a_baseline_the_verdict_and_what_fell_come_first(tmp_path: Path) -> None:
    """The table says what was before; tasks that fell stand above those that were never better."""
    old = store_run(tmp_path / "old", [trial(f"t{at}", 1, float(at > 2)) for at in range(12)])
    scores = [0.0, 0.0, 0.0, *[0.25] * 8, 1.0]
    text = comment(store_run(tmp_path / "new", [trial(f"t{at}", 1, scores[at]) for at in range(12)]), old=old)

    assert text.startswith("### s is worse (0.75 -&gt; 0.25).\n")
    assert "| suite | score | before | change | verdict | 95 % | tasks passed | trials |" in text
    assert re.search(r"\| s \| 0.25 \| 0.75 \| -0.50 \| worse \| [0-9.-]+ \| 1 of 12 \| 12 of 12 \|", text)
    assert "the 3 worst of 11 tasks with trials not passed" in text
    assert re.findall(r"\*\*MISSED 0.25\*\* \(-0.75\) `s/(\w+)\[rules-1\]`", text) == ["t10", "t3", "t4"]
    assert "<details><summary>details of the verdict</summary>" in text


def test_with_several_models_it_says_with_which_most_passed(tmp_path: Path) -> None:
    """A task that three models try is no three tasks."""

    def heading(passed: dict[str, int]) -> str:
        trials = [
            trial("", 1, float(at < number), key=key(f"t{at}", model=model))
            for model, number in passed.items()
            for at in range(4)
        ]
        return comment(store_run(tmp_path / str(len(passed)), trials)).partition("\n")[0]

    assert heading({"a": 1, "b": 3}) == "### 3 of 4 tasks passed with b, 1 with a."
    assert heading({"a": 1, "b": 3, "c": 2}) == "### 3 of 4 tasks passed with b, 1 to 2 with 2 others."


def test_foreign_text_is_code_and_mentions_nobody(tmp_path: Path) -> None:
    """No mention, link, reference, image, comment or end of a fold comes of what an agent or a task says."""
    evil = "`@octocat` #1 </details><!-- x --> ![i](http://e.x/i) https://e.x org/repo#2"
    missed = trial("a", 1, 0.5, key=key(evil)._replace(suite="@octocat #1"), file=evil)
    text = comment(
        store_run(tmp_path, [replace(missed, grades=(replace(missed.grades[0], rationale=evil),))]), evil
    )
    outside = re.sub(r"`[^`\n]*`", "", text)

    assert text.count("</details>") == 1 + len(re.findall("`[^`]*</details>[^`]*`", text))
    assert not re.search(r"[@#](?!\u200b)(?=\w)|<!--|!\[", outside.replace(r"\!\[", ""))
    assert outside.count("https://e.x") == 1  # in the remark, which is the author's own


def test_the_longest_comment_fits_and_says_what_was_cut(tmp_path: Path) -> None:
    """Hundreds of suites, long names and long reasons: GitHub would refuse all of it."""
    names = [f"{at:03}" + "suite" * 30 for at in range(300)]
    trials = [
        trial("t" * 200, 1, score, key=key("t" * 200)._replace(suite=name), cause="", bucket="b" * 150)
        for name in names
        for score in (0.5,)
    ]
    suites = tuple(RunSuite(name, "capability", "card") for name in names)
    old, new = (store_run(tmp_path / name, trials, suites=suites) for name in ("old", "new"))
    text = comment(new, "gate: " + "x" * 70_000, old=old)

    assert len(text) < 65_000
    assert "and 270 more suites" in text
    assert re.search(r"\.\.\. [\d,]+ more lines: agenteval compare OLD NEW shows them", text)


def test_a_run_in_which_all_passed_has_no_fold(tmp_path: Path) -> None:
    """There is nothing to unfold."""
    assert "<details>" not in comment(store_run(tmp_path, [trial("a", 1, 1.0)]))
