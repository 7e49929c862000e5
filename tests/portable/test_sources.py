"""The package's own text: only one room asks which system it runs on, and every text has its encoding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pytest_agenteval"
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
POSIX_ALONE = re.compile(
    r"\bfcntl\b|\bos\.(fork|forkpty|killpg|getpgid|setsid|getuid|geteuid|mkfifo|getppid|name\b)"
    r"|\bdir_fd\b|\bsrc_dir_fd\b|O_(DIRECTORY|NOFOLLOW|CLOEXEC|BINARY)|\bSIG(KILL|STOP|HUP|QUIT)\b|set_wakeup_fd"
    r"|start_new_session|preexec_fn|pass_fds|\bimport (resource|pwd|grp|termios|pty)\b|\bsys\.platform\b"
    r"|\bos\.replace\(|\.symlink_to\(|/dev/shm|\.hardlink_to\("
)
MODE = re.compile("[rwax]t?[+]?")


def _text_calls(tree: ast.AST) -> Iterator[tuple[int, str, set[str]]]:
    """Give line, mode and keywords of every call that reads or writes a file as text."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        texts = [
            arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        keywords = {keyword.arg or "" for keyword in call.keywords}
        if name in ("read_text", "write_text"):
            # With a text as its argument it is no path's, or "utf-8" is said.
            if isinstance(call.func, ast.Attribute) and (name == "write_text" or not texts):
                yield call.lineno, name[0], keywords
        elif (
            name == "open"
            and not _opens_archive(call)
            and (not call.args or MODE.fullmatch(texts[-1] if texts else ""))
        ):
            yield call.lineno, texts[-1] if texts else "r", keywords


def _opens_archive(call: ast.Call) -> bool:
    """Whether it is tarfile's: bytes, whatever is in them."""
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "tarfile"


def test_every_text_has_an_encoding_and_its_line_breaks() -> None:
    """Without them Windows would read and write what its settings say, with ``\\r\\n``."""
    lacking = []
    for name, path in MODULES.items():
        for line, mode, keywords in _text_calls(ast.parse(path.read_text(encoding="utf-8"))):
            needed = {"encoding"} if mode.startswith("r") and "+" not in mode else {"encoding", "newline"}
            if missing := needed - keywords:
                lacking.append(f"{name}:{line}: a text without {' and '.join(sorted(missing))}")

    assert lacking == []


def test_only_one_room_knows_what_posix_alone_has() -> None:
    """Elsewhere it is asked for by what it does, so that its portable case is tried once."""
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, path in MODULES.items()
        if not name.startswith("processes/")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSIX_ALONE.search(line)
    ]

    assert found == []


def test_paths_are_written_down_with_slashes() -> None:
    """A path that goes into a record, an id or a cassette is made a text by ``as_posix``."""
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, path in MODULES.items()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"str\([\w.()]*\.relative_to\(|\{[\w.()]*\.relative_to\([^)]*\)\}", line)
    ]

    assert found == []
