"""The report that ``agenteval view`` serves: the one of files, kept up to date, searched, and with notes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.evidence import Answer, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import JUDGE_ASK, Event, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.html_report import trial_json, write_html
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.reports.trial_search import TranscriptSearch, TranscriptTexts, search_text
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.notes import Note, read_notes, write_notes
from pytest_agenteval.store.run_folder import RunHeader, RunModel, end_run, new_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.cli.viewing import Client, Got, side, viewing
from tests.journals import write_note
from tests.reports.html.pages import rows_of
from tests.reports.runs import MIXED, key, store_run, trial
from tests.store.samples import FULL_TODAY, LONG, TRIALS, file

MODELS = (RunModel("fast", "fast"), RunModel("slow", "slow"))


def several_models(root: Path) -> Path:
    """Store a run of two models, the second with a variant, and give its folder."""
    of = [("fast", ""), ("slow", ""), ("slow", "short")]
    trials = [
        trial(f"t{task}", 1, (task + len(variant)) % 3 / 2, key=key(f"t{task}", 1, model, variant))
        for task in range(4)
        for model, variant in of
    ]
    return store_run(root, trials, models=MODELS).folder


def sides(*picks: str) -> str:
    """Give the query that picks these sides."""
    return urlencode([("side", pick) for pick in picks])


def index(client: Client, *picks: str) -> Any:
    """Give the index of a report."""
    return client.ask(f"/api/index?{sides(*picks)}").json


def index_in(text: str) -> Any:
    """Give the index that stands in a page."""
    return json.loads(text.partition('id="index">')[2].partition("</script>")[0])


def as_in_a_file(found: Any) -> Any:
    """Give an index without what only a file or only a server has: places of transcripts, what is live."""
    columns = {
        name: values for name, values in found["trials"]["columns"].items() if name not in ("chunk", "at")
    }
    rest = {name: value for name, value in found.items() if name not in ("live", "left_out")}
    return {**rest, "trials": {**found["trials"], "columns": columns}}


def judged(task: str, *scores: float) -> Trial:
    """Give a trial about which judges have given these scores."""
    votes = [
        {"judge": f"j{at}", "scores": {"tone": score}, "rationale": "so"} for at, score in enumerate(scores)
    ]
    grade = Grade("tone", 0.5, "as judges say", details={"judgement": {"votes": votes}})
    asked = Event(0.1, JUDGE_ASK, "", {"usage": Usage(10, 1, asks=1).to_json()})
    return trial(task, 1, 0.5, grades=(grade,), transcript=Transcript(events=(asked,) * len(scores)))


def test_it_has_the_index_of_the_file(tmp_path: Path) -> None:
    """Every figure is that of ``agenteval report -o``: of a run, of two, of one with three sides."""
    results = tmp_path / "runs"
    old, new = store_run(results, MIXED).folder, store_run(results, [*MIXED, trial("d", 1, 1.0)]).folder
    many = several_models(results)
    with viewing(results) as client:
        for folders in ((old,), (old, new), (many,), (old, new, many)):
            path = tmp_path / "report.html"
            write_html(path, report_source([load_run(folder) for folder in folders]))
            found = index(client, *(side("run", folder.name) for folder in folders))
            assert as_in_a_file(found) == as_in_a_file(index_in(path.read_text(encoding="utf-8")))
        page = client.ask(f"/report?{sides(side('run', old.name))}")
        assert index_in(page.text) == index(client, side("run", old.name))


def test_models_and_variants_of_a_run_are_sides_in_any_number(tmp_path: Path) -> None:
    """As ``--models`` and ``--variants`` choose them, of several runs too; a baseline stands beside them."""
    results = tmp_path / "runs"
    many, other = several_models(results), store_run(results, MIXED).folder
    baseline = tmp_path / "evals" / "baselines" / "b.json"
    assert main(["baseline", "set", str(many), "--to", str(baseline)]) == 0
    with viewing(results, project=tmp_path) as client:

        def labels(*picks: str) -> list[tuple[str, str, int]]:
            found = index(client, *picks)
            counts = found["trials"]["columns"]["side"]
            numbers = counts if isinstance(counts, list) else [counts["same"]] * found["trials"]["rows"]
            return [(s["model"], s["variant"], numbers.count(at)) for at, s in enumerate(found["sides"])]

        name = many.name
        assert labels(side("run", name, "fast", ""), side("run", name, "slow", "base")) == [
            ("fast", "", 4),
            ("slow", "", 4),
        ]
        assert labels(side("run", name, "", "short"), side("run", name, "", "base")) == [
            ("slow", "short", 4),
            ("fast, slow", "", 8),
        ]
        for model, variant in (("fsat", ""), ("fast", "shrt")):
            lost = client.ask(f"/api/index?{sides(side('run', name, model, variant))}")
            assert lost.status == 404
            assert lost.json["problem"].startswith(f"{name} has no {'variant' if variant else 'model'} ")
        picks = (
            side("baseline", "evals/baselines/b.json"),
            side("run", name, "slow", ""),
            side("run", other.name),
        )
        assert [count for _, _, count in labels(*picks)] == [12, 8, 6]
        (trials, bare) = (f"/api/trial?{sides(*picks)}&of={at}" for at in (1, 0))
        assert client.ask(f"{trials}&trial={quote('s/t0[slow-1]')}").json["task"] == "t0"
        assert client.ask(f"{bare}&trial={quote('s/t0[slow-1]')}").json is None


def test_it_follows_a_run(tmp_path: Path) -> None:
    """A new version for what is written, for an end and for a note; and none for anything else."""
    folder = new_run(tmp_path / "runs", RunHeader("2026-11-21T09:30:15+00:00"))
    writer, pick = JournalWriter(folder, "main-1"), side("run", folder.name)
    with viewing(tmp_path / "runs") as client:
        version = ""

        def look() -> Got:
            nonlocal version
            got = client.ask(f"/api/index?{sides(pick)}", headers={"If-None-Match": version or None})
            version = got.headers["etag"]
            return got

        assert look().json["title"] == "no trials"
        assert look().status == 304
        writer.finished([trial("a", 1, 0.5)])
        found = look().json
        assert (found["trials"]["rows"], found["live"]["version"]) == (1, version)
        assert found["live"]["runs"][0]["state"] == "not ended"
        writer.finished([trial("a", 2, 1.0), trial("b", 1, None)])
        found = look().json
        progress = found["live"]["runs"][0]["progress"]
        assert (progress["ended"], progress["errored"]) == (3, 1)
        assert (look().status, look().body) == (304, b"")
        write_note(folder, key("a", 2), Note("2026-11-21T09:31:00Z", "seen"))
        assert {"looked_at": "2026-11-21T09:31:00Z", "comment": "seen"} in look().json["trials"]["columns"][
            "note"
        ]
        end_run(folder, "2026-11-21T09:32:15+00:00", 0)
        assert look().json["live"]["runs"][0]["state"] == "ended"
        assert look().status == 304


def test_a_trial_is_read_when_it_is_opened(tmp_path: Path) -> None:
    """As files have it; one that is not there, or without a transcript, says so."""
    results = tmp_path / "runs"
    run = store_run(results, [replace(FULL_TODAY, key=key("t1")), replace(FULL_TODAY, key=key("t2"))])
    with viewing(results) as client:
        of = f"/api/trial?{sides(side('run', run.name))}&of=0&trial="
        for entry in run.entries:
            got = client.ask(of + quote(entry.key.label, safe=""))
            assert got.body == trial_json(run.trial(entry))
        for wrong in ("nothing", "", "s/t1", quote("s/t1[rules-2]")):
            assert client.ask(of + wrong).status == 404
        for number in ("1", "-1", "x", "", "9" * 400, "٣"):
            assert (
                client.ask(of.replace("of=0", f"of={quote(number)}") + quote("s/t1[rules-1]")).status == 404
            )
        (run.folder / "transcripts-main.jsonl").write_bytes(b"")
        got = client.ask(of + quote("s/t1[rules-1]"))
        assert (got.status, "no transcript at" in got.json["problem"]) == (404, True)


def test_judges_that_disagree_are_found_without_reading_other_trials(tmp_path: Path) -> None:
    """Where several votes were given their trials are read, once; of other trials no transcript is."""
    run = store_run(
        tmp_path / "runs",
        [judged("a", 0.25, 0.75), judged("b", 0.5, 0.5), judged("c", 0.5), trial("d", 1, 1.0)],
    )
    os.truncate(
        run.folder / "transcripts-main.jsonl", (run.folder / "transcripts-main.jsonl").stat().st_size - 9
    )
    with viewing(tmp_path / "runs") as client:
        found = index(client, side("run", run.name))
        disagree = [row["disagree"] for row in rows_of(found["trials"])]
        assert disagree == [True, False, False, False]
        assert found["live"]["pending"] == 0


def found_by(client: Client, run: str, words: str) -> list[str]:
    """Search to the end; give the names of the trials that were found, in their order."""
    number, names = "", list[str]()
    while True:
        got = client.ask(
            f"/api/search?{sides(side('run', run))}&{urlencode({'q': words, 'search': number})}"
        ).json
        names += [name for _, name in got["found"]]
        number = got["search"]
        if got["done"] == got["total"]:
            return sorted(names)


def test_words_are_found_in_transcripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In messages, calls, results, files, answers: all words of a query; in portions where it takes long."""
    call = ToolCall("c", 1, 0, "find_order", {"id": 4711, "who": "Mina"}, result=f"{LONG} 주문 없음")
    texts = {
        "a": Transcript(
            (Message("user", 'Say "Good Morning" to Mina'), Message("assistant", "", (call,), 1)), (call,)
        ),
        "b": Transcript((Message("user", f"{LONG} good evening"),)),
        "c": Transcript((Message("user", "C:\\path\\file"),)),
    }
    trials = [trial(task, 1, 0.5, transcript=transcript) for task, transcript in texts.items()]
    after = Outcome(Answer("done", {"state": True}), Tree(), Tree({"notes.md": file("kept safe\n")}))
    run = store_run(tmp_path / "runs", [*trials, trial("d", 1, 1.0, outcome=after)])
    names = {task: f"s/{task}[rules-1]" for task in "abcd"}
    with viewing(tmp_path / "runs") as client:
        for words, tasks in {
            "good": "ab",
            "GOOD mina": "a",
            '"good morning"': "a",
            "find_order": "a",
            "4711": "a",
            "주문": "a",
            "evening": "b",
            "path\\file": "c",
            "safe": "d",
            "true": "d",
            "notes.md": "d",
            "role": "",
            "nothing": "",
        }.items():
            assert found_by(client, run.name, words) == [names[task] for task in tasks], words
        monkeypatch.setattr("pytest_agenteval.cli.view_reports.SEARCH_S", -1)
        first = client.ask(f"/api/search?{sides(side('run', run.name))}&q=good&search=").json
        assert (first["done"], first["total"]) == (1, 4)
        assert found_by(client, run.name, "good") == [names["a"], names["b"]]
        assert (
            client.ask(f"/api/search?{sides(side('run', run.name))}&q=good&search=unknown").json["done"] == 1
        )


@given(st.lists(TRIALS, min_size=1, max_size=3), st.data())
def test_no_trial_is_lost_by_looking_at_bytes_first(trials: list[Trial], data: st.DataObject) -> None:
    """Whatever is in it, and whichever part is searched: bytes are looked at, then the trial itself."""
    numbered = [replace(some, key=some.key._replace(repetition=at)) for at, some in enumerate(trials, 1)]
    with tempfile.TemporaryDirectory() as folder:
        run = store_run(Path(folder), numbered)
        texts = [search_text(run.trial(entry)) for entry in run.entries]
        text = data.draw(st.sampled_from(texts))
        start = data.draw(st.integers(0, max(0, len(text) - 1)))
        query = f'"{text[start : start + data.draw(st.integers(1, 12))]}"'
        found = TranscriptSearch(
            query, [(at, run, entry) for at, entry in enumerate(run.entries)], TranscriptTexts()
        )
        phrase = query[1:-1].lower()
        if phrase and '"' not in phrase:
            assert [at for at in found.found() if at is not None] == [
                at for at, each in enumerate(texts) if phrase in each
            ]


def test_notes_are_all_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the run's folder, where every report has them; an empty one goes away; secrets are hidden."""
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    KNOWN_SECRETS.know_environment()
    run = store_run(tmp_path / "runs", [trial("a", 1, 0.5, attempt=3), trial("b", 1, 1.0)])
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    with viewing(tmp_path / "runs") as client:
        target = f"/api/notes?{sides(side('run', run.name))}&of=0&trial={quote('s/a[rules-1]')}"
        got = client.post(target, {"looked_at": True, "comment": " odd: 미나 <b> "})
        ((note_key, note),) = read_notes(run.folder).items()
        assert got.json == {"looked_at": note.looked_at, "comment": "odd: 미나 <b>"}
        assert (note.comment, note.attempt) == ("odd: 미나 <b>", 3)
        assert got.json in index(client, side("run", run.name))["trials"]["columns"]["note"]
        assert client.post(target, {"looked_at": False, "comment": "the key hunter2-hunter2"}).status == 200
        # The page was loaded before somebody wrote this elsewhere.
        write_notes(run.folder, {note_key: 3}, looked_at=False, comment="from a terminal")
        marked = client.post(target, {"looked_at": True}).json
        assert (marked["comment"], bool(marked["looked_at"])) == ("from a terminal", True)
        assert client.post(target, {"comment": ""}).json == {"looked_at": marked["looked_at"], "comment": ""}
        assert "hunter2" not in (run.folder / "notes.jsonl").read_text(encoding="utf-8")
        for wrong in (
            {},
            {"looked_at": 1, "comment": ""},
            {"comment": 7},
            {"looked_at": True, "comment": ["x"]},
        ):
            assert client.post(target, wrong).status == 404
        long = client.post(target, {"looked_at": True, "comment": "x" * 20_001})
        assert (long.status, "20,001 characters" in long.json["problem"]) == (404, True)
        assert (
            client.post(target.replace("rules-1", "rules-2"), {"looked_at": True, "comment": ""}).status
            == 404
        )
        assert client.ask(target).status == 405
        assert client.post(target, {"looked_at": False, "comment": ""}).json == {
            "looked_at": "",
            "comment": "",
        }
        assert not any(read_notes(run.folder).values())
    assert {
        path.name: path.read_bytes() for path in run.folder.iterdir() if path.name != "notes.jsonl"
    } == before


def test_a_report_whose_run_is_gone_says_so(tmp_path: Path) -> None:
    """The page that is open is told, and asks on."""
    run = store_run(tmp_path / "runs", MIXED)
    with viewing(tmp_path / "runs") as client:
        target = f"/api/index?{sides(side('run', run.name))}"
        assert client.ask(target).status == 200
        run.folder.rename(tmp_path / "elsewhere")
        got = client.ask(target)
        assert (got.status, "or no longer" in got.json["problem"]) == (404, True)
        (tmp_path / "elsewhere").rename(run.folder)
        assert client.ask(target).status == 200


def test_only_a_served_page_can_ask(tmp_path: Path) -> None:
    """A file has no script that asks, and its policy forbids it; a served page may ask its own server."""
    run = store_run(tmp_path / "runs", MIXED)
    write_html(tmp_path / "report.html", report_source([run]))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "fetch(" not in text
    assert "connect-src" not in text
    with viewing(tmp_path / "runs") as client:
        page = client.ask(f"/report?{sides(side('run', run.name))}")
        assert "fetch(" in page.text
        assert page.text.endswith("</html>\n")
        own = page.text.partition('Content-Security-Policy" content="')[2].partition('"')[0]
        assert page.headers["content-security-policy"] == f"{own}; frame-ancestors 'none'"
        assert "connect-src 'self'" in own
