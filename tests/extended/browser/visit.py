"""A report opened in a browser, watched for what it must not do."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any
from urllib.parse import quote

WIDE = {"width": 1280, "height": 900}
TALL = {"width": 1280, "height": 2400}
"""High enough for all rows of a short list."""
PHONE = {"width": 390, "height": 844}


PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def launched(playwright: Any) -> Any:
    """Start Chromium, the one that playwright has installed or else the machine's own; None without any."""
    installed = (playwright.chromium.executable_path, *map(shutil.which, PROGRAMS))
    program = next((path for path in installed if path and os.path.exists(path)), None)
    # In a container Chromium's own sandbox has nothing to stand on.
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"]) if program else None


def trial_address(name: str) -> str:
    """Give the part of an address that opens a trial."""
    return f"#/t/{quote(name, safe='')}"


class Visit:
    """One tab with one report; ``settings`` are those of a browser's context, such as ``color_scheme``."""

    def __init__(self, browser: Any, url: str, settings: dict[str, Any]) -> None:
        self.context = browser.new_context(**{"viewport": WIDE, **settings})
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("dialog", lambda dialog: self.errors.append(f"a dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url, wait_until="commit")
        if settings.get("java_script_enabled", True):
            self.until("document.body?.dataset.view")

    def _on_console(self, message: Any) -> None:
        # What a policy forbids is told on the console, as an error.
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def get(self, expression: str) -> Any:
        """Give what an expression of JavaScript comes to."""
        return self.page.evaluate(expression)

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Wait until an expression is true; the page's policy forbids playwright's own way of waiting."""
        end = time.monotonic() + seconds
        while not (value := self.get(expression)):
            assert time.monotonic() < end, f"never: {expression}; {self.errors}"
            time.sleep(0.01)
        return value

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def go(self, address: str) -> None:
        """Go to another part of the report, as a link does."""
        self.get(f"void (location.hash = {address!r})")

    def open_trial(self, name: str) -> None:
        """Go to a trial, and wait until its transcript is there."""
        self.go(trial_address(name))
        self.until("document.getElementById('conversation')")

    @property
    def rows(self) -> list[str]:
        """The tasks whose rows are drawn, in their order."""
        names: list[str] = self.get(
            "[...document.querySelectorAll('.row .name')].map(link => link.textContent)"
        )
        return names

    @property
    def title(self) -> str:
        """The heading of the trial that is open, empty where the list is."""
        text: str = self.get("document.querySelector('.trial h1')?.textContent ?? ''")
        return text

    def count(self, selector: str) -> int:
        """Count elements."""
        return self.page.locator(selector).count()

    def end(self) -> None:
        """Close the tab; raises AssertionError where the page did what it must not."""
        self.context.close()
        assert self.errors == []
        self.check_requests()

    def check_requests(self) -> None:
        """Hold the page to what it may ask for: a file is all that there is."""
        assert [url for url in self.requests if not url.startswith("file:")] == []
        assert len(self.requests) == 1
