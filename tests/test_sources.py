"""The package's own text: only one room asks which system it runs on, and every text has its encoding."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress

from tests.source_code import MODULES, lines_with, place, text

POSIX_ALONE = (
    *("fcntl", "os.fork", "os.killpg", "os.getpgid", "os.setsid", "os.getuid", "os.geteuid", "os.mkfifo"),
    *("os.getppid", "os.name", "dir_fd", "src_dir_fd", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"),
    *(
        "SIGKILL",
        "SIGSTOP",
        "SIGHUP",
        "SIGQUIT",
        "set_wakeup_fd",
        "start_new_session",
        "preexec_fn",
        "pass_fds",
    ),
    *("sys.platform", "os.replace(", "symlink_to(", "/dev/shm", "hardlink_to("),
)
POSIX_MODULES = ("resource", "pwd", "grp", "termios", "pty")
MODE = re.compile("[rwax]t?[+]?")


def _calls(source: str) -> Iterator[tuple[int, str, ast.Call]]:
    """Give place, what stands before it, and the call itself, wherever a file may be read or written.

    Only these calls are parsed: to parse every module takes seconds.
    """
    for match in re.finditer(r"(?<!def )\b(?:read_text|write_text|open)\(", source):
        before = re.search(r"[\w)\]]*\.?$", source[: match.start()].rpartition("\n")[2])
        for end in itertools.islice(re.finditer(r"\)", source[match.end() :]), 20):
            with suppress(SyntaxError):
                call = ast.parse(source[match.start() : match.end() + end.end()], mode="eval").body
                assert isinstance(call, ast.Call)
                yield match.start(), before[0] if before else "", call
                break


def _text_calls(source: str) -> Iterator[tuple[int, str, set[str]]]:
    """Give line, mode and keywords of every call that reads or writes a file as text."""
    for start, before, call in _calls(source):
        name = getattr(call.func, "id", "")
        texts = [
            arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        keywords = {keyword.arg or "" for keyword in call.keywords}
        line = source.count("\n", 0, start) + 1
        if name in ("read_text", "write_text"):
            # With a text as its argument it is no path's, or "utf-8" is said.
            if before.endswith(".") and (name == "write_text" or not texts):
                yield line, name[0], keywords
        # What tarfile opens are bytes, whatever is in them. Python's own ``open`` without a mode reads text.
        elif before != "tarfile." and (
            not call.args
            or (len(call.args) == 1 and not before.endswith(".") and "mode" not in keywords)
            or MODE.fullmatch(texts[-1] if texts else "")
        ):
            yield line, texts[-1] if texts else "r", keywords


def test_every_text_has_an_encoding_and_its_line_breaks() -> None:
    """Without them Windows would read and write what its settings say, with ``\\r\\n``."""
    lacking = []
    for path in MODULES:
        for line, mode, keywords in _text_calls(text(path)):
            needed = {"encoding"} if mode.startswith("r") and "+" not in mode else {"encoding", "newline"}
            if missing := needed - keywords:
                lacking.append(f"{place(path)}:{line}: a text without {' and '.join(sorted(missing))}")

    assert lacking == []


def test_only_one_room_knows_what_posix_alone_has() -> None:
    """Elsewhere it is asked for by what it does, so that its portable case is tried once."""
    words = [*POSIX_ALONE, *(f"import {name}" for name in POSIX_MODULES)]
    elsewhere = [path for path in MODULES if not place(path).startswith("processes/")]
    suspects = [path for path in elsewhere if any(word in text(path) for word in words)]
    pattern = "|".join(rf"(?<!\w){re.escape(word)}" for word in words)

    assert lines_with(pattern, suspects) == []


def test_paths_are_written_down_with_slashes() -> None:
    """A path that goes into a record, an id or a cassette is made a text by ``as_posix``."""
    suspects = [path for path in MODULES if ".relative_to(" in text(path)]

    assert lines_with(r"str\([\w.()]*\.relative_to\(|\{[\w.()]*\.relative_to\([^)]*\)\}", suspects) == []
