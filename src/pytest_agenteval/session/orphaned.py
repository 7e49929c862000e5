"""The end of a worker whose controller is gone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

LOOK_S = 0.25
"""Seconds between two looks at who the parent is."""

CLOSING_S = 1.0
"""Seconds for what is running to be stopped and for what ended to be written down."""


def end_with_controller(workerinput: Mapping[str, Any], close: Callable[[], object]) -> None:
    """Watch, in a worker, over the process that started it, and end soon after that does.

    Left alone, a worker whose controller was killed goes on asking models for as long as its trials take:
    nobody would ever see what comes of it. A worker that was started by another process than the controller,
    as on another machine, is not watched.
    """
    controller = os.getppid()
    if workerinput.get("agenteval", {}).get("controller") == controller:
        threading.Thread(
            target=_watch, args=(controller, close), name="agenteval-orphan", daemon=True
        ).start()


def _watch(controller: int, close: Callable[[], object]) -> None:
    while os.getppid() == controller:
        time.sleep(LOOK_S)
    closing = threading.Thread(target=close, name="agenteval-closing", daemon=True)
    closing.start()
    closing.join(CLOSING_S)
    os._exit(1)
