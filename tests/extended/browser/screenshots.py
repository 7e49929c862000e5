"""The pictures of README and docs, made of a real run of shipped evals with three offline models.

python -m tests.extended.browser.screenshots docs/images
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.reports.html_report import write_html
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.store.run_reader import Run, load_run
from tests.extended.browser.visit import Visit, launched, trial_address

ROOT = Path(__file__).parents[3]
MODELS = ("rules", "oracle", "nop")
SUITE = "evals/pkm"
TASK = "pkm/pkm_opt_out_ko_test_result"
PAIR = "#/b/" + "/".join(trial_address(f"{TASK}[{model}-1]")[4:] for model in ("rules", "oracle"))
WIDE = {"width": 1280, "height": 1000}
TALL = {"width": 1280, "height": 1500}
LIGHT, DARK = {"color_scheme": "light"}, {"color_scheme": "dark"}


class Shot(NamedTuple):
    """A picture: which models of the run, which address, how it is looked at, and what is done before."""

    name: str
    address: str
    settings: dict[str, Any]
    models: tuple[str, ...] = ()
    before: Callable[[Visit], object] = lambda seen: None


def _top_of(selector: str) -> Callable[[Visit], object]:
    """Scroll to an element, with a margin above it."""
    return lambda seen: seen.get(
        f"scrollTo(0, document.querySelector({selector!r}).getBoundingClientRect().top + scrollY - 24)"
    )


def _search(seen: Visit) -> None:
    """Type the beginning of a tool's name, and look at what it is offered as."""
    seen.page.fill("#filter", "skip")
    _top_of(".causes")(seen)


SHOTS = (
    Shot("report-light", "", {"viewport": TALL, **LIGHT}),
    Shot("report-dark", "", {"viewport": TALL, **DARK}),
    Shot("report-two", "", {"viewport": WIDE, **LIGHT}, models=("oracle", "rules")),
    Shot("report-find", "", {"viewport": {**WIDE, "height": 640}, **DARK}, before=_search),
    Shot("report-trial", trial_address(f"{TASK}[rules-1]"), {"viewport": WIDE, **LIGHT}),
    Shot("report-trial-beside", PAIR, {"viewport": WIDE, **DARK}),
)


def run_evals(folder: Path) -> Run:
    """Run the suite with every model, as anybody can in a clone."""
    models = [f"--agent-model={model}" for model in MODELS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SUITE, *models]
    subprocess.run([*command, f"--agent-results={folder}"], cwd=ROOT, check=True)
    return load_run((folder / "latest").resolve())


def take(shot: Shot, run: Run, browser: Any, folder: Path, out: Path) -> None:
    """Write the report that a picture shows, look at it, and keep what is seen."""
    report = folder / f"{shot.name}.html"
    write_html(report, report_source([run], models=shot.models))
    seen = Visit(browser, report.as_uri() + shot.address, {**shot.settings, "reduced_motion": "reduce"})
    seen.until("document.readyState === 'complete' && !document.querySelector('.loading')")
    shot.before(seen)
    # What is drawn for the new place is there before the picture is taken.
    seen.get("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seen.page.screenshot(path=out / f"{shot.name}.png")
    seen.end()


def main() -> None:
    """Make all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder of the pictures")
    parser.add_argument("names", nargs="*", help="which pictures; all without any")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        run = run_evals(Path(scratch) / "runs")
        browser = launched(playwright)
        for shot in SHOTS:
            if not options.names or shot.name in options.names:
                take(shot, run, browser, Path(scratch), options.out)
                print(options.out / f"{shot.name}.png")
        browser.close()


if __name__ == "__main__":
    main()
