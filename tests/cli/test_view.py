"""``agenteval view``: the list of runs, what is picked of it, leaderboards, and what stays untouched."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.cli.view_runs import run_progress
from pytest_agenteval.records.trial import Origin
from pytest_agenteval.reports.leaderboard import leaderboards_json, leaderboards_of
from pytest_agenteval.reports.run_list import listed_run, verdict_text
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import (
    HOLD_FILE,
    Resumption,
    RunHeader,
    RunModel,
    change_header,
    end_run,
    latest_first,
    list_runs,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import load_run
from tests.cli.viewing import Client, side, viewing
from tests.forked_workers import start_python
from tests.reports.runs import MIXED, key, store_run, trial
from tests.reports.sample_scorecards import SAMPLE
from tests.reports.test_leaderboard import graded_trial, two_runs

HOLD = """
import sys
from pathlib import Path
from pytest_agenteval.processes.files import PresenceLock

held = PresenceLock(Path(sys.argv[1]))
held.hold()
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def at_work(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let a process hold a run as a pytest does that is at work on it, unless it is killed before."""
    command = [sys.executable, "-c", HOLD, str(folder / HOLD_FILE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder
        holder.kill()


def rows(client: Client) -> dict[str, Any]:
    """Give the rows of the list by name, once no figures are pending."""
    while (document := client.ask("/api/runs").json)["pending"]:
        pass
    return {row["name"]: row for row in document["runs"]}


def test_the_list_has_the_figures_of_agenteval_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest first, in the same words, with their verdicts; a large run's stored figures are taken."""
    results = tmp_path / "runs"
    first, second = store_run(results, MIXED), store_run(results, [*MIXED, trial("e", 1, 0.25)])
    comparison = {"headline": "s fell", "suites": [], "v": 1}
    (second.folder / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
    with viewing(results) as client:
        listed = rows(client)
        assert list(listed) == [run.path.name for run in latest_first(list_runs(results))]
        for run in (first, second):
            figures, cells = listed_run(run.folder)
            row = listed[run.name]
            assert (row["started_at"], row["headline"]) == (figures.started_at, figures.headline)
            for shown, suite, cell in zip(row["suites"], figures.suites, cells, strict=True):
                expected = (suite.suite, cell.who, cell.score, cell.interval, cell.averaged, suite.planned)
                verdict = verdict_text(suite.verdict) if suite.verdict else ""
                names = ("suite", "who", "score", "interval", "averaged", "planned", "cost", "verdict")
                assert tuple(shown[name] for name in names) == (*expected, cell.cost, verdict)
        assert main(["runs", "--results", str(results)]) == 0
        table = capsys.readouterr().out
        assert all(suite["score"] in table for row in listed.values() for suite in row["suites"])

    monkeypatch.setattr("pytest_agenteval.reports.run_list.LARGE", 1)
    end_run(first.folder, "2026-11-21T09:31:15+00:00", 0)
    listed_run(first.folder)
    stored = json.loads((first.folder / "figures.json").read_text(encoding="utf-8"))
    stored["cells"][0]["score"] = "0.33"
    (first.folder / "figures.json").write_text(json.dumps(stored), encoding="utf-8")
    with viewing(results) as client:
        assert rows(client)[first.name]["suites"][0]["score"] == "0.33"


def test_the_page_comes_before_the_figures_and_asks_for_them(tmp_path: Path) -> None:
    """Hundreds of runs are listed at once; their figures come in portions, the newest first."""
    results = tmp_path / "runs"
    for _ in range(3):
        store_run(results, MIXED)
    with viewing(results) as client:
        page = client.ask("/").text
        document = json.loads(page.partition('id="runs">')[2].partition("</script>")[0])
        assert (len(document["runs"]), document["pending"]) == (3, 3)
        assert all(row["suite_names"] == ["s"] for row in document["runs"])
        assert all(row["suites"] for row in rows(client).values())
        again = client.ask("/").text
        assert json.loads(again.partition('id="runs">')[2].partition("</script>")[0])["pending"] == 0


def test_a_run_goes_on_is_killed_resumed_and_ends(tmp_path: Path) -> None:
    """Each is seen as it is: running only while a process is at work on it, whatever its header says."""
    results = tmp_path / "runs"
    folder = new_run(results, RunHeader("2026-11-21T09:30:15+00:00"))
    write_planned(folder, planned_groups([(key(task), "x") for task in "abcd"]))
    writer = JournalWriter(folder, "main-1")
    with viewing(results) as client:

        def state() -> tuple[str, int | None]:
            row = rows(client)[folder.name]
            return row["state"], row["progress"]["ended"] if "progress" in row else None

        with at_work(folder) as holder:
            assert state() == ("running", 0)
            writer.finished([trial("a", 1, 1.0)])
            assert state() == ("running", 1)
            writer.finished([trial("b", 1, 0.5)])
            assert state() == ("running", 2)
            holder.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            holder.wait()
            assert state() == ("not ended", None)
        again = Resumption("2026-11-21T10:30:15+00:00")
        change_header(folder, lambda header: replace_resumed(header, again))
        with at_work(folder):
            JournalWriter(folder, "main-2").finished([trial("c", 1, 1.0)])
            assert state() == ("running", 3)
            end_run(folder, "2026-11-21T10:30:25+00:00", 1)
            assert state() == ("running", 3)
        assert state() == ("ended", None)
        assert rows(client)[folder.name]["suites"][0]["averaged"] == 3


def replace_resumed(header: RunHeader, resumption: Resumption) -> RunHeader:
    """Give the header of a run that is gone on with."""
    return replace(header, resumed=(resumption,), ended_at="", exit_status=None)


def test_progress_counts_what_was_done_since_a_run_was_resumed(tmp_path: Path) -> None:
    """What ended before, or was reused from another run, says nothing about the pace."""
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    write_planned(folder, planned_groups([(key(task), "x") for task in "abcde"]))
    writer = JournalWriter(folder, "main-1")
    moments = {"a": "2026-11-21T09:30:16.5Z", "b": "2026-11-21T10:00:00Z", "c": "2026-11-21T10:00:01.25Z"}
    writer.finished([trial(task, 1, 1.0, started_at=at) for task, at in moments.items()])
    writer.finished([trial("d", 1, None, started_at=moments["c"], origin=Origin("other", 1, False))])
    progress = run_progress(load_run(folder))
    assert (progress.ended, progress.planned, progress.errored) == (4, 5, 1)
    assert (progress.since, progress.ended_since) == ("2026-11-21T09:30:15+00:00", 3)
    resumption = Resumption("2026-11-21T10:00:00+00:00")
    change_header(folder, lambda header: replace_resumed(header, resumption))
    progress = run_progress(load_run(folder))
    assert (progress.since, progress.ended_since) == (resumption.at, 2)


def test_a_run_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """It stands in the list with the reason."""
    results = tmp_path / "runs"
    good, newer, odd = (store_run(results, MIXED) for _ in range(3))
    with (newer.folder / "journal-main.jsonl").open("ab") as file:
        file.write(b'{"v": 99, "kind": "finished"}\n')
    with (odd.folder / "journal-main.jsonl").open("ab") as file:
        file.write(b"[]\n")
    with viewing(results) as client:
        listed = rows(client)
        assert listed[good.name]["suites"]
        assert "upgrade pytest-agenteval" in listed[newer.name]["problem"]
        assert "journal-main.jsonl" in listed[odd.name]["problems"][0]
        got = client.ask(f"/report?side={side('run', newer.name)}")
        assert (got.status, "upgrade pytest-agenteval" in got.text) == (404, True)


HOSTILE = (
    "</script><script>alert(1)<!--",
    "a%2Fb",
    "..%2f..%2fetc",
    "quo\"te's & <b>",
    "미나 run",
    "back\\slash",
    "?side=x&token=y#z",
)


@pytest.mark.posix
def test_names_of_runs_are_names_and_nothing_else(tmp_path: Path) -> None:
    """Whatever a folder is called, it is found by that name, and the page stays as it is."""
    results = tmp_path / "runs"
    for name in HOSTILE:
        store_run(results, MIXED).folder.rename(results / name.replace("/", "∕"))
    names = {path.name for path in results.iterdir() if path.is_dir() and not path.is_symlink()}
    with viewing(results) as client:
        assert set(rows(client)) == names
        page = client.ask("/")
        assert page.text.count("<script") == page.text.count("</script>") == 2
        assert "<!--" not in page.text
        for name in names:
            got = client.ask(f"/report?side={quote(side('run', name), safe='')}")
            assert (got.status, got.headers["content-type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.posix
def test_a_folder_whose_name_is_no_utf8_breaks_no_page(tmp_path: Path) -> None:
    """Its bytes are written out, wherever pages name it or lead to it."""
    results = tmp_path / "runs"
    folder = store_run(results, MIXED).folder
    try:
        folder.rename(results / os.fsdecode(b"\xffrun"))
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    with viewing(results) as client:
        (name,) = rows(client)
        assert name.encode().endswith(b"run")
        report = f"/report?side={quote(side('run', name), safe='')}"
        for page in ("/", "/leaderboard", "/trend", report):
            assert client.ask(page).status == 200
        for page in ("/leaderboard", "/trend"):
            assert quote(name, safe="").lstrip("%") in client.ask(page).text


@pytest.mark.parametrize(
    "pick",
    [
        "",
        "run",
        "run/",
        "run/..",
        "run/../runs",
        side("run", "../secret"),
        side("run", "latest"),
        side("run", "/etc"),
        "baseline/base.json",
        side("baseline", "../base.json"),
        side("baseline", "/etc/passwd"),
        side("baseline", "runs/x/run.json"),
        "file/etc",
        "run/\x00",
        "run/%00",
        "run/a/b",
        "run/a/b/c/d",
    ],
)
def test_only_what_is_listed_can_be_opened(tmp_path: Path, pick: str) -> None:
    """Runs and baselines are looked up in the list: no name becomes a path."""
    store_run(tmp_path / "elsewhere", MIXED).folder.rename(tmp_path / "secret")
    (tmp_path / "base.json").write_text('{"agenteval_baseline": 1}', encoding="utf-8")
    store_run(tmp_path / "runs", MIXED)
    with viewing(tmp_path / "runs", project=tmp_path / "runs") as client:
        got = client.ask(f"/report?side={quote(pick)}")
        assert got.status == 404
        assert got.headers["content-type"].startswith("text/plain")


def test_runs_that_are_named_are_there_too_wherever_they_are(tmp_path: Path) -> None:
    """Such a run has its path as its name, and nothing beside it can be opened."""
    inside, outside = store_run(tmp_path / "runs", MIXED), store_run(tmp_path / "other", MIXED)
    beside = store_run(tmp_path / "other", MIXED)
    with viewing(tmp_path / "runs", [inside.folder, outside.folder]) as client:
        assert set(rows(client)) == {inside.name, str(outside.folder)}
        assert client.ask(f"/report?side={quote(side('run', str(outside.folder)), safe='')}").status == 200
        assert client.ask(f"/report?side={quote(side('run', str(beside.folder)), safe='')}").status == 404


def test_baselines_below_the_project_are_listed(tmp_path: Path) -> None:
    """By their paths; other JSON files are none, and one that is broken says so when it is opened."""
    run = store_run(tmp_path / "runs", [trial("a", 1, 1.0), trial("b", 1, 0.5)])
    path = tmp_path / "evals" / "baselines" / "s.json"
    assert main(["baseline", "set", str(run.folder), "--to", str(path)]) == 0
    path.with_name("broken.json").write_text('{"agenteval_baseline": 9}', encoding="utf-8")
    path.with_name("other.json").write_text("{}", encoding="utf-8")
    with viewing(tmp_path / "runs", project=tmp_path) as client:
        names = client.ask("/api/baselines").json["baselines"]
        assert names == ["evals/baselines/broken.json", "evals/baselines/s.json"]
        picked = "&".join(
            f"side={quote(pick, safe='')}" for pick in (side("baseline", names[1]), side("run", run.name))
        )
        assert client.ask(f"/report?{picked}").status == 200
        got = client.ask(f"/report?side={quote(side('baseline', names[0]), safe='')}")
        assert (got.status, "baseline format 9" in got.text) == (404, True)


def test_looking_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither figures nor locks nor links: the folder of runs is as before, whatever was looked at."""
    monkeypatch.setattr("pytest_agenteval.reports.run_list.LARGE", 1)
    run = store_run(tmp_path / "runs", MIXED)
    (run.folder / HOLD_FILE).write_text("41", encoding="utf-8")
    end_run(run.folder, "2026-11-21T09:31:15+00:00", 0)
    before = snapshot(tmp_path)
    with viewing(tmp_path / "runs", project=tmp_path) as client:
        rows(client)
        for path in (
            "/",
            "/leaderboard",
            "/trend",
            "/api/baselines",
            f"/report?side={side('run', run.name)}",
        ):
            assert client.ask(path).status == 200
        assert client.post("/api/runs", {}).status == 405
    assert snapshot(tmp_path) == before


def snapshot(root: Path) -> dict[str, tuple[int, int, int]]:
    """Give what would change if anything were written."""
    states = {path: path.lstat() for path in [root, *root.rglob("*")]}
    return {str(path): (it.st_ino, it.st_size, it.st_mtime_ns) for path, it in states.items()}


def board(client: Client, query: str = "") -> Any:
    """Give the board of a leaderboard's page."""
    got = client.ask(f"/leaderboard{query}")
    assert got.status == 200
    return json.loads(got.text.partition('id="board">')[2].partition("</script>")[0])["board"]


def columns(found: Any, block: str) -> dict[str, list[Any]]:
    """Give the figures of the columns of a block, by their titles."""
    return {
        each["title"]: [cell[1] for cell in each["cells"]]
        for each in found["columns"]
        if each["block"] == block
    }


def test_a_leaderboard_has_the_figures_of_the_report(tmp_path: Path) -> None:
    """Total, parts, levels and their metrics, and what was taken: as ``agenteval report --json`` has them."""
    runs = two_runs(tmp_path / "runs")
    (expected,) = leaderboards_json(leaderboards_of(runs, [SAMPLE]))["boards"]
    with viewing(tmp_path / "runs", scorecards=[SAMPLE]) as client:
        found = board(client)
        assert [row["who"] for row in found["rows"]] == [row["model"] for row in expected["rows"]]
        composites = [row["composite"] for row in expected["rows"]]
        assert columns(found, "figure")["index"] == [each["value"] for each in composites]
        for part in ("speed", "quality"):
            assert columns(found, "part")[part] == [each["parts"][part] for each in composites]
        for level in ("pace", "care"):
            values = [row["levels"][level]["value"] for row in expected["rows"]]
            assert columns(found, "group")[level] == values
        (pace, care) = found["groups"]
        assert columns(care, "group")["tidy"] == [
            row["levels"]["care"]["metrics"]["tidy"]["value"] for row in expected["rows"]
        ]
        assert columns(pace, "use") == {"sure": [0.25, 0.25]}
        assert any("0.5 x" in note for note in found["notes"])


def test_a_leaderboard_shows_the_newest_run_of_each_model_or_all(tmp_path: Path) -> None:
    """A model of a run with several is compared by itself; a suite that no run has is none."""
    results = tmp_path / "runs"
    both = (RunModel("rules", "rules"), RunModel("other", "other"))
    first = store_run(
        results, [graded_trial("a", fast=1.0), graded_trial("a", "other", fast=0.5)], models=both
    )
    second = store_run(results, [graded_trial("a", fast=0.25)])
    newest = max((first, second), key=lambda run: run.name)
    with viewing(results, scorecards=[SAMPLE]) as client:
        found = board(client)
        assert {(row["who"], row["run"]) for row in found["rows"]} == {
            ("rules", newest.name),
            ("other", first.name),
        }
        assert {row["side"] for row in found["rows"] if row["run"] == first.name} >= {
            side("run", first.name, "other", "base")
        }
        assert len(board(client, "?suite=s&runs=all")["rows"]) == 3
        query = urlencode([("suite", "s"), ("run", first.name), ("run", "nothing")])
        picked = board(client, f"?{query}")
        assert {row["run"] for row in picked["rows"]} == {first.name}
        assert client.ask("/leaderboard?suite=nothing").status == 404
    with viewing(tmp_path / "empty") as client:
        assert board(client) is None


def test_a_suite_over_time_is_a_page_whose_runs_open(tmp_path: Path) -> None:
    """As ``agenteval trend -o`` draws it; other suites and numbers of runs than those offered are none."""
    results = tmp_path / "runs"
    with viewing(results) as client:
        assert "There are no runs yet." in client.ask("/trend").text
    first, second = store_run(results, MIXED), store_run(results, MIXED)
    with viewing(results) as client:
        got = client.ask("/trend")
        assert "Trend of s" in got.text
        assert "script-src" not in got.headers["content-security-policy"]
        links = {unescape(each) for each in re.findall(r'href="(/report[^"]*)"', got.text)}
        assert links == {f"/report?{urlencode({'side': side('run', run.name)})}" for run in (first, second)}
        assert all(client.ask(link).status == 200 for link in links)
        assert client.ask("/trend?suite=s&last=50").status == 200
        assert client.ask("/trend?suite=other").status == 404
        assert client.ask("/trend?last=7").status == 404


COMMAND = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"


@pytest.mark.posix
def test_the_command_prints_its_address_and_ends_cleanly(tmp_path: Path) -> None:
    """Ctrl-C ends it with one line, no traceback and status 0; meanwhile it serves who has the address."""
    run = store_run(tmp_path / ".agenteval" / "runs", [trial("a", 1, 1.0)])
    baseline = tmp_path / "evals" / "baselines" / "s.json"
    assert main(["baseline", "set", str(run.folder), "--to", str(baseline)]) == 0
    latest = ".agenteval/runs/latest"
    arguments = ["view", "evals/baselines/s.json", run.name[:12], latest]
    process = start_python("-c", COMMAND, *arguments, cwd=tmp_path, stdout=-1, stderr=-1, text=True)
    try:
        assert process.stdout is not None
        place, _, url = process.stdout.readline().rstrip().partition(": ")
        assert place == "Runs in .agenteval/runs"
        address, _, token = url.partition("&token=")
        sides = [("side", side("baseline", "evals/baselines/s.json")), ("side", side("run", run.name))]
        assert address.partition("/report")[2] == f"?{urlencode(sides)}"
        assert len(token) > 40
        assert process.stdout.readline() == "Press Ctrl-C to stop.\n"
        port = int(address.split(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = f"GET /?token={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
            # A connection that is open does not hold it up.
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == ("\nagenteval view has ended.\n", "")
    finally:
        process.kill()
    assert process.returncode == 0


@pytest.mark.posix
@pytest.mark.parametrize("options", [(), ("--no-browser",)], ids=["", "no browser"])
def test_a_browser_is_opened_from_a_terminal(tmp_path: Path, options: tuple[str, ...]) -> None:
    """With an address of its own, which works once; a browser within the terminal is left alone."""
    from tests.terminals import Terminal

    store_run(tmp_path / ".agenteval" / "runs", MIXED)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/opened\n')
    browser.chmod(0o755)
    terminal = Terminal(200)
    # What ends in & is started in the background; any other command takes over the terminal.
    for command, opens in ((f"{browser} %s &", not options), (f"{browser} %s", False)):
        settings = {"cwd": tmp_path, "stdout": terminal.its, "env": {**os.environ, "BROWSER": command}}
        process = subprocess.Popen([sys.executable, "-c", COMMAND, "view", *options], **settings)
        until = time.monotonic() + 60
        try:
            while b"Press Ctrl-C to stop" not in terminal.written or (
                opens and not (tmp_path / "opened").exists()
            ):
                assert time.monotonic() < until
                terminal.read(0.05)
            (printed,) = re.findall(rb"token=(\S+)", terminal.written)
            if opens:
                url = (tmp_path / "opened").read_text(encoding="utf-8").strip()
                assert printed.decode() not in url
                assert [urlopen(url).status, _refused(url)] == [200, 403]
        finally:
            process.kill()
            process.wait()
        terminal.written = b""
        assert (tmp_path / "opened").exists() is opens
        (tmp_path / "opened").unlink(missing_ok=True)


def _refused(url: str) -> int:
    with pytest.raises(HTTPError) as refused:
        urlopen(url)
    return int(refused.value.code)


def test_a_port_that_is_taken_or_none_is_a_mistake_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line says what to do; so it is with a run that there is not."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["view", "--port", port, "--results", str(tmp_path), "--no-browser"]) == 2
    assert capsys.readouterr().err.startswith(f"agenteval: port {port} is not available (")
    for number in ("0", "65536", "-1", "x"):
        with pytest.raises(SystemExit):
            main(["view", "--port", number])
    (tmp_path / "a.json").write_text('{"agenteval_baseline": 1}', encoding="utf-8")
    (tmp_path / "runs").mkdir()
    assert main(["view", str(tmp_path / "a.json"), "--results", str(tmp_path / "runs")]) == 2
    assert "can be shown" in capsys.readouterr().err
    assert main(["view", "nothing", "--results", str(tmp_path)]) == 2
    assert "there is no run 'nothing'" in capsys.readouterr().err
