"""Runs that ``agenteval view`` serves, in a process of its own, and their pages in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.cli.viewing import side
from tests.extended.browser.visit import Visit

COMMAND = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"


class Served:
    """A server's address, and the token that opens it."""

    def __init__(self, url: str) -> None:
        self.origin, _, self.token = url.partition("/?token=")

    def url(self, path: str = "/") -> str:
        """Give an address with the token."""
        place, mark, part = path.partition("#")
        return f"{self.origin}{place}{'&' if '?' in place else '?'}token={self.token}{mark}{part}"


@contextmanager
def serving(results: Path) -> Iterator[Served]:
    """Serve a folder of runs for as long as the block lasts."""
    command = [sys.executable, "-c", COMMAND, "view", "--no-browser", "--results", str(results)]
    process = subprocess.Popen(command, cwd=results.parent, env=os.environ, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Served(process.stdout.readline().strip().rpartition(": ")[2])
    finally:
        process.kill()
        process.communicate()


def report(*picks: str) -> str:
    """Give the path of the report of sides, each as ``side`` names it; of runs their names are enough."""
    sides = [("side", pick if "/" in pick else side("run", pick)) for pick in picks]
    return f"/report?{urlencode(sides)}"


class ServedVisit(Visit):
    """One tab with a page that is served; ``end`` holds it to its own server, as a file is held to itself."""

    def __init__(self, browser: Any, served: Served, path: str, settings: dict[str, Any]) -> None:
        self.served = served
        super().__init__(browser, served.url(path), settings)

    def check_requests(self) -> None:
        """Hold the page to its own server."""
        assert [url for url in self.requests if not url.startswith(f"{self.served.origin}/")] == []

    def get(self, expression: str) -> Any:
        """Give what an expression comes to; None while one page gives way to the next."""
        try:
            return super().get(expression)
        except Exception as moved:  # playwright is not imported here: it may not be installed
            if "context was destroyed" not in str(moved):
                raise
            return None

    def visit(self, path: str) -> None:
        """Go to another page of the server, as its token has let in already."""
        self.page.goto(self.served.origin + path, wait_until="commit")
        self.until("document.body?.dataset.view")

    def count_requests(self, path: str) -> int:
        """Count the requests to a path so far."""
        return sum(url.startswith(f"{self.served.origin}{path}") for url in self.requests)
