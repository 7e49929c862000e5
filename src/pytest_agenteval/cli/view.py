"""``agenteval view``: runs in the browser, served on this machine alone."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

from pytest_agenteval.cli.console import RUN_HELP, add_results_option, find_named_run
from pytest_agenteval.cli.view_reports import side_text
from pytest_agenteval.cli.view_runs import ViewedRuns
from pytest_agenteval.cli.view_server import ADDRESS, ViewServer
from pytest_agenteval.cli.view_site import ViewSite
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.tasks.file_names import holds_baseline, project_root
from pytest_agenteval.text.errors import UsageMistake

HIGHEST_PORT = 65535


def view_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"Serves the page on {ADDRESS} to everyone with its address, until Ctrl-C. {RUN_HELP}"
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="runs or baseline files to open side by side (default: a list)")  # fmt: skip  # noqa: E501
    add("--port", type=_port, default=0, metavar="N", help="the port (default: any free one)")
    add("--no-browser", action="store_true", help="print the address and open no browser")
    add_results_option(parser)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= HIGHEST_PORT):
        raise argparse.ArgumentTypeError(f"expected a port, 1 to {HIGHEST_PORT}; found {text!r}")
    return int(text)


def view(args: argparse.Namespace) -> int:
    """Serve the runs until Ctrl-C."""
    results, project = Path(args.results), project_root(Path(args.results).resolve())
    places = list(dict.fromkeys(_place(results, name) for name in args.runs))
    runs = ViewedRuns(results, [place for place in places if place.is_dir()], project)
    sides = [_side(place, runs, project) for place in places]
    try:
        server = ViewServer(ViewSite(runs, installed_registry().scorecards()).answer, args.port)
    except OSError as refused:
        why = refused.strerror or refused
        raise UsageMistake(
            f"port {args.port} is not available ({why}); without --port, a free one is used"
        ) from None
    path = f"/report?{urlencode([('side', side) for side in sides])}" if sides else "/"
    with server:
        print(f"Runs in {results}: {server.url(path)}\nPress Ctrl-C to stop.", flush=True)
        try:
            if sys.stdout.isatty() and not args.no_browser:
                # It may wait for the browser to start, which waits for the page.
                Thread(target=open_browser, args=[server.url(path, once=True)], daemon=True).start()
            server.serve_forever()
        except KeyboardInterrupt:
            # The terminal shows ^C at the beginning of the line.
            print("\nagenteval view has ended.")
    return 0


def _place(results: Path, name: str) -> Path:
    """Give the folder of a run, or the file of a baseline, by its own name: ``latest`` is a link."""
    path = Path(name) if holds_baseline(Path(name)) else find_named_run(results, name)
    return path.resolve()


def _side(place: Path, runs: ViewedRuns, project: Path) -> str:
    if place.is_dir():
        return side_text("run", runs.name_of(place))
    names = [name for name, path in runs.baselines().items() if path.samefile(place)]
    if not names:
        raise UsageMistake(f"{place}: only baselines below {project} can be shown")
    return side_text("baseline", names[0])


def open_browser(address: str) -> None:
    """Open a window of the user's browser, and nothing where the browser would take over the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if not isinstance(browser, webbrowser.GenericBrowser) or isinstance(
        browser, webbrowser.BackgroundBrowser
    ):
        browser.open(address)
