"""A plugin of pytest that counts calls of our functions: ``-p tests.extended.performance.counted_calls``.

Comprehensions and lambdas are no calls of their own. The counts go to the file that COUNTED_CALLS names.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

OURS = f"{os.sep}pytest_agenteval{os.sep}"
BEGIN, END = "whole_reply", "Recorder.add_reply"

_called: list[tuple[str, str]] = []
"""File and name of each function that was called, in order."""


def _count(frame: FrameType, event: str, _: Any) -> None:
    code = frame.f_code
    # The body of a class or a module runs once, when it is imported, and is no function.
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    if event == "call" and is_function and OURS in code.co_filename:
        _called.append((code.co_filename, code.co_qualname))


# Also what is called before pytest is configured, such as the adding of options.
threading.setprofile(_count)
sys.setprofile(_count)


def pytest_unconfigure() -> None:
    """Write what was counted."""
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]  # None takes it away, which typeshed does not know
    names = [name for _, name in _called]
    figures = {"calls": len(_called), "functions": len({*_called})}
    beginnings = [at for at, name in enumerate(names) if name == BEGIN]
    # Not the first, which also imports what reads it; the longest, which is that of a reply with a call.
    if beginnings[1:]:
        figures["reply"] = max(names.index(END, at) - at + 1 for at in beginnings[1:])
    Path(os.environ["COUNTED_CALLS"]).write_text(json.dumps(figures), encoding="utf-8")
