"""A panel below the line that is being written: whatever is written, the screen is as without it."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator

import pytest

from pytest_agenteval.session.panel import RowsBelow

if os.name == "posix":
    from tests.terminals import Terminal

pytestmark = pytest.mark.posix

PANEL = ("", "  trials   3 of 9", "  ended    3 passed", "  slowest  한국어/가")
PRINTED = (".", "F", "\x1b[32m.\x1b[0m", "a.py ", "\n", "  [ 10%]\n", "가나다", "x" * 70, "y" * 19 + "\n")
TEXTS = (*PRINTED, "50%\r", "\t", "\x08", "\x1b]0;title\x07")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal of 60 columns and 12 rows."""
    terminal = Terminal(60, 12)
    yield terminal
    terminal.close()


def shown(texts: list[str], steps: random.Random | None) -> list[str]:
    """Write these texts, with a panel that comes and goes between them, or without; give the screen."""
    terminal = Terminal(60, 12)
    with os.fdopen(os.dup(terminal.its), "w", encoding="utf-8") as stream:
        rows = RowsBelow(stream, [stream], 0) if steps else None
        for text in texts:
            stream.write(text)
            if steps is None or steps.random() < 0.7:
                stream.flush()
            if rows is not None and steps is not None:
                act(rows, steps)
            terminal.read()
        if rows is not None:
            rows.close()
        stream.flush()
        terminal.read(0.01)
    terminal.close()
    return terminal.lines()


def act(rows: RowsBelow, steps: random.Random) -> None:
    """Do to the panel what time and debuggers do to it."""
    number = steps.random()
    if number < 0.6:
        rows.show(PANEL[: steps.randint(0, 4)], rows.size())
    elif number < 0.7:
        rows.pause()
    else:
        rows.go_on()


@pytest.mark.parametrize("seed", range(25))
def test_the_screen_is_as_without_the_panel(seed: int) -> None:
    """Dots, colours, wide letters, wrapped lines, moving cursors, at the bottom of the screen too."""
    chance = random.Random(seed)
    texts = [chance.choice(TEXTS) for _ in range(60)]
    with_panel, without = shown(texts, random.Random(seed)), shown(texts, None)
    assert with_panel == without


def test_dots_pass_by_and_a_new_line_pushes_the_panel_down(terminal: Terminal) -> None:
    """What stays on its line costs nothing; after a line's end the panel stands one row lower, at once."""
    with os.fdopen(os.dup(terminal.its), "w", encoding="utf-8") as stream:
        rows = RowsBelow(stream, [], 0)
        rows.show(PANEL, rows.size())
        terminal.read(0.1)
        before = len(terminal.written)
        stream.write("..")
        stream.flush()
        terminal.read(0.1)
        assert terminal.written[before:] == b".."
        stream.write(".\na.py .")
        stream.flush()
        terminal.read(0.1)
        assert terminal.lines() == ["...", "a.py .", *PANEL]
        rows.close()


def test_what_another_thread_writes_stands_alone(terminal: Terminal) -> None:
    """Until the panel is shown again: such a thread may end the process at once, as pytest-timeout's does."""
    with os.fdopen(os.dup(terminal.its), "w", encoding="utf-8") as stream:
        rows = RowsBelow(stream, [], 0)
        rows.show(PANEL, rows.size())
        thread = threading.Thread(target=lambda: (stream.write("timeout\n"), stream.flush()))
        thread.start()
        thread.join()
        terminal.read(0.1)
        assert terminal.lines() == ["timeout"]
        rows.show(PANEL, rows.size())
        terminal.read(0.1)
        assert terminal.lines() == ["timeout", "", *PANEL]
        rows.close()


def test_keys_that_move_the_cursor_leave_nothing_of_the_panel_behind(terminal: Terminal) -> None:
    """Enter, pressed while one waits: the terminal itself writes it."""
    with os.fdopen(os.dup(terminal.its), "w", encoding="utf-8") as stream:
        rows = RowsBelow(stream, [], 0)
        for echo in (b"\r\n", b"\r\n", b"\r\n\r\n"):
            rows.show(PANEL, rows.size())
            os.write(terminal.its, echo)
        rows.show(PANEL, rows.size())
        stream.write(".\n")
        rows.close()
        terminal.read(0.05)
        assert terminal.lines() == ["", "", "", "", "."]


def test_a_terminal_that_was_made_smaller_is_left_alone_until_lines_fit(terminal: Terminal) -> None:
    """Lines made for a wider terminal would wrap."""
    with os.fdopen(os.dup(terminal.its), "w", encoding="utf-8") as stream:
        rows = RowsBelow(stream, [], 0)
        size = rows.size()
        terminal.resize(30, 12)
        rows.show(PANEL, size)
        terminal.read(0.05)
        assert terminal.written == b""
        rows.show(["  3 of 9"], rows.size())
        terminal.read(0.1)
        assert terminal.lines() == ["", "  3 of 9"]
        rows.close()


def test_a_terminal_whose_size_nobody_set_shows_pytests_lines_alone() -> None:
    """Such as that of a container at its start; the panel is there once its size is."""
    terminal = Terminal(60, 12)
    terminal.resize(0, 0)
    with os.fdopen(os.dup(terminal.its), "w", encoding="utf-8") as stream:
        rows = RowsBelow(stream, [], 0)
        rows.show(PANEL, rows.size())
        stream.write("가나다")
        stream.write("\n")
        stream.flush()
        terminal.resize(60, 12)
        rows.show(PANEL, rows.size())
        stream.write("a.py")
        stream.flush()
        terminal.read(0.05)
        assert terminal.lines()[1:] == ["a.py", *PANEL[:-1], terminal.lines()[-1]]
        rows.close()
    terminal.close()


def test_streams_are_left_as_they_were(terminal: Terminal) -> None:
    """Closed twice, and with somebody's own method put over it meanwhile, which stays."""
    with os.fdopen(os.dup(terminal.its), "w") as stream, os.fdopen(os.dup(terminal.its), "w") as other:
        rows = RowsBelow(stream, [other, sys.stdout], 0)
        mine = other.write = lambda text: 0  # type: ignore[method-assign]
        rows.close()
        rows.close()
        assert vars(stream) == {"mode": "w"}
        assert other.write is mine
        assert "write" not in vars(sys.stdout)
