"""Notes on trials: what people wrote is kept, whoever writes at the same time and whatever breaks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.records.trial import Origin
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.notes import NOTES, Note, change_notes, read_notes, write_notes
from pytest_agenteval.store.run_folder import RunHeader, new_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.journals import write_note

from .samples import key, trial

SEEN = "2026-11-28T09:30:00Z"

BREAKS = "\n\r\u2028\x00\x85\"'<>\\\ud83d"
TRICKS = ["null", "</script><script>alert(1)</script>", '{"v":99}', '","crc":"00000000"}', "a\nb\r\nc"]
HOSTILE = st.text(st.characters() | st.sampled_from(BREAKS)) | st.sampled_from(TRICKS)


def stored_run(root: Path) -> Path:
    """Give the folder of a run with two trials."""
    folder = new_run(root / "runs", RunHeader("2026-11-28T09:00:00+00:00"))
    with closing(JournalWriter(folder, "main")) as journal:
        journal.finished([trial("t1"), trial("t2")])
    return folder


@given(st.lists(st.tuples(st.sampled_from("abc"), HOSTILE, st.booleans(), st.integers(1, 9)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_last_note_of_a_trial_is_read_as_it_was_written(
    written: list[tuple[str, str, bool, int]],
) -> None:
    """Whatever a comment holds, it is read back; a note with neither mark nor comment is none."""
    expected: dict[str, Note] = {}
    with tempfile.TemporaryDirectory() as root:
        for task, comment, seen, attempt in written:
            expected[task] = Note(SEEN if seen else "", comment, attempt)
            assert write_note(Path(root), key(task), expected[task]) == expected[task]
        odd: list[str] = []

        notes = read_notes(Path(root), odd)
        assert {key: note for key, note in notes.items() if note} == {
            key(task): note for task, note in expected.items() if note
        }
        assert odd == []


WRITER = """
import sys
from pathlib import Path
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.notes import Note, change_notes
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    own = TrialKey("s", f"{name}{number}", "card", "rules", "", 1)
    change_notes(folder, lambda notes: {own: Note("", f"{name} " * 2000, number + 1)})
    both = TrialKey("s", "both", "card", "rules", "", 1)
    change_notes(folder, lambda notes: {both: Note("", notes.get(both, Note()).comment + name)})
"""


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """A page and a terminal may write notes at once: each line stays whole, and each change sees the last."""
    count = 30
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, name, str(count)]) for name in "xyz"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]

    odd: list[str] = []
    notes = read_notes(tmp_path, odd)

    assert odd == []
    assert {key(f"{name}{number}") for name in "xyz" for number in range(count)} < notes.keys()
    assert sorted(notes[key("both")].comment) == sorted("xyz" * count)


TORN = """
import os, resource, signal, sys
from pathlib import Path
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store import notes, record_files
folder = Path(sys.argv[1])
size = (folder / notes.NOTES).stat().st_size
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50))
write = os.write
def die_after(fd, data):
    written = write(fd, data)
    os.kill(os.getpid(), signal.SIGKILL)
record_files.os.write = die_after
notes.write_notes(folder, {TrialKey("s", "t1", "card", "rules", "", 1): 1}, comment="never whole")
"""


@pytest.mark.skipif(not POSIX, reason="limits the size of a file, and kills with SIGKILL")
def test_a_writer_that_is_killed_halfway_costs_only_its_own_note(tmp_path: Path) -> None:
    """Its half line is named; notes before it and after it are read, and no lock is left behind."""
    folder = stored_run(tmp_path)
    write_note(folder, key("t1"), Note("", "before"))
    killed = subprocess.run([sys.executable, "-c", TORN, str(folder)], check=False)
    assert killed.returncode == -9
    assert not (folder / NOTES).read_bytes().endswith(b"\n")

    write_note(folder, key("t2"), Note("", "after"))
    run = load_run(folder)

    assert read_notes(folder) == {key("t1"): Note("", "before"), key("t2"): Note("", "after")}
    assert run.odd == (f"{NOTES}:2: left out: half a line, which a crash left behind, or no JSON object",)


def test_damage_is_named_and_never_written_over(tmp_path: Path) -> None:
    """A line that cannot be read stays in the file, is named by file and line, and hides no other note."""
    folder = stored_run(tmp_path)
    for comment in ("first", "second"):
        write_note(folder, key("t1"), Note("", comment))
    path = folder / NOTES
    damaged = path.read_bytes().replace(b"second", b"sEcond")
    newer = b'{"v":2,"suite":"s","task":"t2","agent":"card","model":"rules","repetition":1,"comment":"x"}\n'
    own = b'{"suite":"s","task":"t2","agent":"card","model":"rules","repetition":1,"comment":"by hand"}\n'
    path.write_bytes(damaged + b"[1]\n\xff\xfe\n" + newer + b'{"v":1,"suite":7}\n' + own)
    before = path.read_bytes()

    run = load_run(folder)
    write_note(folder, key("t1"), Note(SEEN, "third"))

    assert [entry.note for entry in run.entries] == [Note("", "first"), Note("", "by hand")]
    assert [line.split(": left out: ")[0] for line in run.odd] == [f"{NOTES}:{at}" for at in (2, 3, 4, 5, 6)]
    assert "damaged since it was written" in run.odd[0]
    assert "upgrade pytest-agenteval" in run.odd[3]
    assert path.read_bytes().startswith(before)
    assert load_run(folder).entries[0].note == Note(SEEN, "third")


def test_a_mark_keeps_the_comment_and_an_empty_note_takes_both_away(tmp_path: Path) -> None:
    """Looking again must not delete what was said; taking a note back is possible, and no line is lost."""
    write_note(tmp_path, key(), Note("", "wrong tool"))
    (marked,) = write_notes(tmp_path, {key(): 2}).values()
    assert (marked.comment, marked.attempt, bool(marked.looked_at)) == ("wrong tool", 2, True)
    assert read_notes(tmp_path) == {key(): marked}

    write_note(tmp_path, key(), Note())
    assert read_notes(tmp_path) == {key(): Note()}
    change_notes(tmp_path, lambda notes: notes)
    assert len((tmp_path / NOTES).read_bytes().splitlines()) == 3


def test_who_looked_at_an_earlier_attempt_has_not_looked_at_this_one(tmp_path: Path) -> None:
    """A comment outlives a new attempt; the mark holds for what the agent did, so new grades keep it."""
    folder = stored_run(tmp_path)
    write_note(folder, key("t1"), Note(SEEN, "wrong tool"))
    write_note(folder, key("t2"), Note(SEEN, "too slow"))
    again = trial("t1", attempt=2)
    regraded = trial("t2", attempt=2, origin=Origin("", 1, regraded=True))
    JournalWriter(folder, "gw0").finished([again, regraded])

    run = load_run(folder)

    assert [entry.note for entry in run.entries] == [Note("", "wrong tool"), Note(SEEN, "too slow", 2)]


def test_no_secret_gets_into_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person may paste a line of a log: notes are cleaned like everything else in a run's folder."""
    monkeypatch.setenv("SHOP_API_KEY", "sesame-8214-opens")
    KNOWN_SECRETS.know_environment()

    kept = write_note(tmp_path, key(), Note("", "sent sesame-8214-opens to the wrong host"))

    assert "sesame" not in (tmp_path / NOTES).read_text("utf-8")
    assert read_notes(tmp_path) == {key(): kept}


@pytest.mark.parametrize("blocked", ["the folder is gone", "a folder stands there"])
def test_notes_that_cannot_be_kept_are_refused_in_one_line(tmp_path: Path, blocked: str) -> None:
    """A full disk or a folder that may only be read is the user's to mend: no traceback."""
    folder = tmp_path / "run"
    if blocked == "a folder stands there":
        (folder / NOTES).mkdir(parents=True)

    with pytest.raises(UsageMistake, match=r"notes\.jsonl: notes cannot be written there \("):
        write_note(folder, key(), replace(Note(), comment="x"))
