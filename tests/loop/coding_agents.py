"""Scripted coding agents: python coding_agents.py WHAT [ARGUMENT …], in the tree that they are to change.

They read what they are told on standard input, as real ones do, and know nothing of the tests that start
them. Standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOREVER = 600.0


def add(file: str, *sentences: str) -> None:
    """Write the first of these sentences that is not there yet below a prompt; none left: do nothing."""
    path = Path(file)
    text = path.read_text(encoding="utf-8")
    for sentence in sentences:
        if sentence not in text:
            path.write_text(f"{text}{sentence}\n", encoding="utf-8")
            return


def read(file: str, bucket: str, sentence: str) -> None:
    """Add the sentence only if standard input tells of the bucket."""
    if bucket in TOLD:
        add(file, sentence)


def idle() -> None:
    """Look at everything and change nothing."""


def delete(file: str) -> None:
    """Delete a file."""
    Path(file).unlink()


def stray(file: str, text: str = "x\n") -> None:
    """Write, or write over, a file that is none of its business."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def edit(file: str, old: str, new: str) -> None:
    """Replace a piece of a file, a grader's as well as a prompt's."""
    path = Path(file)
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {file}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def look(note: str, *then: str) -> None:
    """Write down every file that is to be seen, history too, and what was told; then do what follows."""
    files = sorted(file for file in Path().rglob("*") if file.is_file() and ".git" not in file.parts)
    texts = [f"{file}\n{file.read_text(encoding='utf-8', errors='replace')}" for file in files]
    told = [file.read_text(encoding="utf-8") for file in Path(os.environ["AGENTEVAL_FEEDBACK"]).rglob("*.*")]
    with Path(note).open("a", encoding="utf-8") as seen:
        seen.write("\n".join([*texts, *told, TOLD, _git("log", "-p")]))
    globals()[then[0]](*then[1:])


def crash(status: str = "1") -> None:
    """Say why, and end with a failure."""
    print("the model is not available", file=sys.stderr)
    sys.exit(int(status))


def hang(note: str) -> None:
    """Ignore every polite signal, as does a child in a session of its own; write down both processes."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sleep = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({FOREVER})"
    child = subprocess.Popen((sys.executable, "-c", sleep), start_new_session=True)
    Path(note).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    time.sleep(FOREVER)


def leave_behind(file: str, sentence: str, note: str) -> None:
    """Add the sentence and end, while a process in a session of its own goes on, which nobody waits for."""
    add(file, sentence)
    sleep = f"import time; time.sleep({FOREVER})"
    start = f"subprocess.Popen((sys.executable, '-c', {sleep!r}), start_new_session=True)"
    server = f"import subprocess, sys; {start}"
    nothing = subprocess.DEVNULL
    subprocess.run((sys.executable, "-c", server), stdin=nothing, stdout=nothing, stderr=nothing, check=True)
    Path(note).write_text("left", encoding="utf-8")


def wait(note: str, *then: str) -> None:
    """Write down that it is at work and stay there; where that is written already, do what follows."""
    if Path(note).exists():
        globals()[then[0]](*then[1:])
        return
    Path(note).write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(FOREVER)


def shout(file: str, sentence: str) -> None:
    """Print 5 MB with escape codes, a title and broken UTF-8, then add the sentence."""
    line = b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \xff\xfe `code` <b>bold</b> \r\n"
    sys.stdout.buffer.write(line * (5_000_000 // len(line)))
    sys.stderr.buffer.write(b"\x1b[2J\x1b[H cleared\n" * 1000)
    add(file, sentence)


def commit(file: str, sentence: str) -> None:
    """Add the sentence and commit it, as some coding agents do unasked."""
    add(file, sentence)
    _git("commit", "-q", "-a", "-m", "A better prompt")


def branch(file: str, sentence: str) -> None:
    """Commit the sentence to a branch of its own and move main to it."""
    _git("checkout", "-q", "-b", "mine")
    commit(file, sentence)
    _git("update-ref", "refs/heads/main", "HEAD")


def tamper(file: str, sentence: str) -> None:
    """Add the sentence, a hook to the repository, and a setting that makes git run a program."""
    folder = Path(_git("rev-parse", "--git-common-dir").strip())
    hook = folder / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ntouch "$HOME/hooked"\n', encoding="utf-8")
    hook.chmod(0o755)
    _git("config", "core.fsmonitor", 'touch "$HOME/fsmonitored"')
    add(file, sentence)


def link(file: str, target: str) -> None:
    """Put a link to a file elsewhere in the place of a prompt."""
    Path(file).unlink()
    Path(file).symlink_to(target)


def hidden(file: str, sentence: str, stray_file: str) -> None:
    """Add the sentence, and a file that git is told to overlook."""
    add(file, sentence)
    folder = Path(_git("rev-parse", "--git-common-dir").strip())
    (folder / "info").mkdir(exist_ok=True)
    with (folder / "info" / "exclude").open("a", encoding="utf-8") as exclude:
        exclude.write(f"{stray_file}\n")
    stray(stray_file)


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    TOLD = sys.stdin.read()
    globals()[sys.argv[1]](*sys.argv[2:])
