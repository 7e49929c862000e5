"""The stored runs of a suite, for verbs that look back over several."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.cli.options import OF_MODEL, add_results_option, count
from pytest_agenteval.cli.output import add_json_option
from pytest_agenteval.loop.suite_history import SuiteRun, counted_models, suite_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.store.runs import whole_runs
from pytest_agenteval.text.errors import UsageMistake, nearest_names


def suite_runs(name: str, args: argparse.Namespace) -> Iterator[SuiteRun]:
    """Read the suite's runs with the models that count, newest first, one when it is looked at."""
    for folder in whole_runs(Path(args.results)):
        if any(suite.name == name for suite in folder.header.suites):
            models = counted_models(folder.header, args.model)
            run = suite_run(load_run(folder.path), name, models) if models else None
            if run is not None:
                yield run


def check_model(args: argparse.Namespace) -> None:
    """Raise UsageMistake where there are runs and none was made with the model that is to count."""
    models = {model.name for folder in whole_runs(Path(args.results)) for model in folder.header.models}
    if args.model and models and args.model not in models:
        known = nearest_names(args.model, models)
        raise UsageMistake(f"no run with the model {args.model!r} in {args.results}; models of runs: {known}")


def offline_models(name: str, args: argparse.Namespace) -> list[str]:
    """Name the offline models that the suite's runs were made with."""
    headers = (folder.header for folder in whole_runs(Path(args.results)))
    of_suite = (header for header in headers if any(suite.name == name for suite in header.suites))
    return sorted({model.name for header in of_suite for model in header.models if model.offline})


def add_run_arguments(parser: argparse.ArgumentParser, runs: str) -> None:
    """Declare which runs count, ``runs`` being what their number means, and whether a file is changed."""
    add = parser.add_argument
    add("--runs", type=count, default=5, metavar="N", help=f"{runs} (default: 5)")
    add("--model", default="", metavar="MODEL", help=f"{OF_MODEL}; offline ones count if named")
    add("--write", action="store_true", help="change suite.yaml (default: show the change)")
    add_json_option(parser)
    add_results_option(parser)
