"""Runs that lie on disk, read by every verb: documents, screens, HTML; and help, which needs no run.

``projects/stored`` has two small runs with every ending, wide letters, a diff and hostile texts. The runs in
``projects/stored_pkm`` are two of the suite pkm, without transcripts. They are never made anew.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema

from tests.documentation import ENGLISH_PAGES, README
from tests.frozen.commands import PROJECTS, ROOT, Scratch, agenteval, compact, placed, pytest

OLD, NEW = "20260101-000000-rules", "20261121-093015-rules"
RUNS = {"OLD": OLD, "NEW": NEW, "RUN": NEW}
PKM = "20261122-174524"
GOLDEN = ROOT / "tests" / "store" / "golden" / "runs"
STORED_BEFORE = ROOT / "tests" / "store" / "stored_before"

DOCUMENTS: Mapping[str, str] = {
    "init": "init --dry-run",
    "validate": "validate evals broken",
    "runs": "runs",
    "show": "show missed",
    "show-diff": f"show 's/c[rules-1]' --diff {OLD}",
    "import": "import",
    "report": "report latest",
    "report-two": f"report {OLD} latest",
    "sql": "sql 'select trial, score from trials'",
    "compare": f"compare {OLD} latest --allow",
    "baseline": "baseline set latest --allow --to kept.json",
    "merge": f"merge {OLD} --into joined",
    "gate-check": "gate-check",
    "trend": "trend",
    "promote": "promote s --runs=1 --model=rules --tasks",
    "demote": "demote s --model=rules",
    "feedback": "feedback latest --suite=s --model=rules",
    "review": "review --rubric task_fulfilment",
    "guide": "guide",
    "leaks": "leaks --suite evals --prompt prompts/system.md",
}
"""Verbs that read what is there; ``live_runs`` has those that start pytest."""

SCREENS: Mapping[str, str] = {
    "report": "report latest",
    "report-v": "report latest -v",
    "report-q": "report latest -q",
    "report-two": f"report {OLD} latest",
    "report-markdown": "report latest -o r.md",
    "report-rows": "report latest --rows grades -o r.csv",
    "report-junit": "report latest -o r.xml",
    "report-atif": "report latest --as atif -o traces",
    "show-worst": "show latest:worst",
    "show-missed": "show latest:missed",
    "show-errored": "show latest:errored",
    "show-several": "show a",
    "sql": "sql 'select task, avg(score) from trials group by 1 order by 1' --all",
    "sql-csv": "sql 'select grader, count(*) n from grades where not passed group by 1 order by 1' --csv",
    "feedback-bucket": "feedback latest --suite=s --model=rules --bucket y",
    "no-run": "report 20200101",
    "no-verb": "reprot latest",
    "no-option": "runs --newest",
    "prune": "runs --prune",
    **DOCUMENTS,
}
"""What a terminal of 100 columns shows, with the files that are written."""

OF_PKM: Mapping[str, str] = {
    "pkm-compare": f"compare {PKM} latest",
    "pkm-compare-v": f"compare {PKM} latest -v",
    "pkm-report": "report latest -v",
    "pkm-runs": "runs",
    "pkm-trend": "trend pkm --last 20",
    "pkm-gate-check": "gate-check",
    "pkm-promote": "promote",
}
WRITTEN = ("r.md", "r.csv", "r.xml", "kept.json", "feedback.md", ".gitignore")
COMMAND = re.compile(
    r"^    (agenteval (?:compare|feedback|gate-check|report|review|runs|show|sql|trend) (?!.*otel)[^|>\n]*)$",
    re.MULTILINE,
)
"""Commands that read stored runs; other verbs want files that a page's reader has, or send something."""

MOMENT = re.compile(r"looked at \d{4}-\d\d-\d\d \d\d:\d\d")
ISLAND = re.compile(r'<script type="application/json" id="index">(.*?)</script>', re.DOTALL)


def project(scratch: Scratch, name: str) -> Path:
    """Give a folder with a suite, one that is broken, and two runs."""
    return scratch.project(PROJECTS / "read", runs=PROJECTS / "stored", name=name)


def documents(scratch: Scratch) -> dict[str, str]:
    """Give what each verb writes with ``--json``, and whether its schema has it so."""
    texts = {}
    for name, command in DOCUMENTS.items():
        folder = project(scratch, name)
        printed = agenteval(folder, *shlex.split(command), "--json", "-")
        head = f"// {printed.status}, {against_schema(command, printed.out)}: agenteval {command} --json -"
        texts[f"{name}.json"] = placed(f"{head}\n{compact(printed.out)}", folder)
    return texts


def against_schema(command: str, document: str) -> str:
    """Say whether a document is as the schema of its verb describes, with no key that it does not know."""
    schema = json.loads(agenteval(PROJECTS, "schema", command.split()[0]).out)
    validator = jsonschema.Draft202012Validator(schema)
    written = json.loads(document)
    fits = validator.is_valid(written) and not validator.is_valid({**written, "unknown": 1})
    return "as its schema says" if fits else "NOT as its schema says"


def schemas(scratch: Scratch) -> dict[str, str]:
    """Give every JSON Schema that is published."""
    folder = scratch.project()
    listed = agenteval(folder, "schema", "--help").out.rpartition("one of ")[2].partition("\n\n")[0]
    names = re.findall(r"[\w-]+", re.sub(r"-\s+", "-", listed))
    return {f"{name}.json": compact(agenteval(folder, "schema", name).out) for name in names}


def screens(scratch: Scratch) -> dict[str, str]:
    """Give what each verb prints, and the comparison that docs/concepts/verdicts.md shows."""
    texts = {}
    for name, command in SCREENS.items():
        folder = project(scratch, name)
        printed = agenteval(folder, *shlex.split(command))
        files = {file: folder / file for file in WRITTEN if (folder / file).is_file()}
        written = [f"--- {file}\n{path.read_text(encoding='utf-8')}" for file, path in files.items()]
        text = "\n".join([f"$ agenteval {command}", str(printed), *written])
        texts[f"{name}.txt"] = placed(text.replace("><", ">\n<"), folder)
    folder = scratch.project(ROOT / "evals" / "pkm", runs=PROJECTS / "stored_pkm", name="pkm")
    for name, command in OF_PKM.items():
        printed = agenteval(folder, *shlex.split(command))
        texts[f"{name}.txt"] = f"$ agenteval {command}\n{printed}"
    return texts


def pages(scratch: Scratch) -> dict[str, str]:
    """Give what the commands print that README and docs show one below the other."""
    texts = {}
    for page in (README, *ENGLISH_PAGES):
        shown = COMMAND.findall(page.read_text(encoding="utf-8"))
        folder = project(scratch, page.stem) if shown else scratch.folder
        lines = [re.sub(r"\b(OLD|NEW|RUN)\b", lambda word: RUNS[word[0]], line) for line in shown]
        parts = [f"$ {line}\n{agenteval(folder, *shlex.split(line, comments=True)[1:])}" for line in lines]
        if parts:
            shown_text = re.sub(MOMENT, "looked at MOMENT", "\n\n".join(parts))
            texts[f"{page.stem}.txt"] = placed(shown_text, folder)
    return texts


def html(scratch: Scratch) -> dict[str, str]:
    """Give the data that a page holds: of one run, and of two."""
    texts = {}
    for name, runs in {"one": [NEW], "two": [OLD, NEW]}.items():
        folder = project(scratch, name)
        agenteval(folder, "report", *runs, "-o", "r.html")
        (island,) = ISLAND.findall((folder / "r.html").read_text(encoding="utf-8"))
        texts[f"{name}.json"] = placed(compact(island), folder)
    return texts


def old_runs(scratch: Scratch) -> dict[str, str]:
    """Give rows of each kind, and the report, of a run of each age."""
    folder = scratch.project(runs=GOLDEN)
    runs = [*sorted(path.name for path in GOLDEN.iterdir()), str(STORED_BEFORE)]
    texts = {}
    for run in runs:
        parts = [str(agenteval(folder, "report", run, "-v")), agenteval(folder, "show", f"{run}:worst").out]
        for kind in ("runs", "trials", "grades", "calls", "messages"):
            agenteval(folder, "report", run, "--rows", kind, "-o", "rows.csv")
            parts.append(f"--- {kind}\n" + (folder / "rows.csv").read_text(encoding="utf-8"))
        texts[f"{run.rpartition('/')[2]}.txt"] = "\n".join(parts).replace(str(ROOT), "ROOT")
    return texts


def help_texts(scratch: Scratch) -> dict[str, str]:
    """Give the help of the command, of each verb, and ours of pytest's."""
    folder = scratch.project()
    whole = agenteval(folder, "--help").out
    verbs = re.findall(r"^  ([\w-]+)  ", whole.partition("\nverbs:\n")[2], re.MULTILINE)
    texts = {"agenteval.txt": whole}
    for words in [*([verb] for verb in verbs), ["import", "memex"], ["import", "ko-agentbench"]]:
        texts[f"{'-'.join(words)}.txt"] = agenteval(folder, *words, "--help").out
    of_pytest = pytest(folder, "--help").out
    (ours,) = re.findall(r"^evals of agents:\n(?:(?: .*)?\n)*", of_pytest, re.MULTILINE)
    texts["pytest.txt"] = ours
    return {name: one_form(text) for name, text in texts.items()}


def one_form(text: str) -> str:
    """Give argparse's help as Python 3.11 lays it out: later ones say a metavar once for both names."""
    if sys.version_info < (3, 13):
        return text
    return re.sub(r"^  (-\w), (--[\w-]+) (\S+)", r"  \1 \3, \2 \3", text, flags=re.MULTILINE)
