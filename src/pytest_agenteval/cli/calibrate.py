"""``agenteval calibrate``: judges against people's labels.

It starts pytest, where judges are called; nothing here calls one.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_agenteval.cli.console import RESULTS_HELP, STDOUT, add_json_option, write_document
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import UsageMistake

STANDARD_ERROR = 2
USAGE_ERROR = 4
YAML = (".yaml", ".yml")


def calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("labels", metavar="LABELS", help="labels (.jsonl, .csv), or a calibration file (.yaml)")
    add(
        "--rubric",
        metavar="NAME",
        help="a rubric's name, its .jinja file, or a question (default: that of LABELS)",
    )
    add(
        "--judge",
        action="append",
        default=[],
        metavar="MODEL",
        help="the judge model; several form an ensemble",
    )
    add("--repeats", type=int, metavar="N", help="judge each example N times, to measure noise")
    add("--threshold", action="append", default=[], metavar="FIGURE=N", help="a value to reach, as in spearman=0.7, spearman.DIMENSION=0.7")  # fmt: skip  # noqa: E501
    add("--tolerance", type=float, metavar="T", help="how far a score may be from its label (default: 0.15)")
    add("--scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="the labels' scale (default: 0 1)")
    add("--seed", type=int, metavar="N", help="the seed of the intervals (default: 0)")
    add("--record-chat", metavar="MODE", help="off, none, once, new_episodes, all (docs/guides/judges.md)")  # fmt: skip  # noqa: E501
    add_json_option(parser)
    add("--results", metavar="DIR", help=RESULTS_HELP)


def calibrate(args: argparse.Namespace) -> int:
    """Start pytest on the calibration and return its exit status.

    pytest prints the figures, and where the page is.
    """
    labels = Path(args.labels)
    if not labels.is_file():
        raise UsageMistake(f"{labels}: expected a file of labels or a calibration; there is none")
    settings: dict[str, Any] = {
        "rubric": args.rubric,
        "repeats": args.repeats,
        "thresholds": _thresholds(args.threshold),
        "tolerance": args.tolerance,
        "scale": args.scale,
        "seed": args.seed,
    }
    # What was not given is left to the calibration's own defaults.
    settings = {key: value for key, value in settings.items() if value not in (None, {})}
    if labels.suffix.lower() in YAML:
        # A calibration file holds all of its settings: a second source of one would be ambiguous.
        if settings:
            raise UsageMistake(f"{labels} is a calibration file: {', '.join(settings)} are set in that file")
        return _calibrate(labels, args)
    from pytest_agenteval.registry.installed import installed_registry

    rubric = labels.stem
    names = installed_registry().rubric_names if args.rubric is None else ()
    if args.rubric is None and rubric not in names:
        raise UsageMistake(
            f"which rubric? add --rubric=R: a question, a .jinja file, or one of {', '.join(names)}"
        )
    if args.rubric is not None:
        is_file = args.rubric.endswith(".jinja")
        rubric = Path(os.path.relpath(args.rubric, labels.parent)).as_posix() if is_file else args.rubric
    # The id stands in pytest's item id and in the name of the page's file.
    id = re.sub(r"[\s/\\:\[\]]+", "_", labels.stem)
    settings |= {"kind": "calibration", "id": id, "labels": labels.name, "rubric": rubric}
    # pytest collects calibration files, and no files of labels.
    with _temporary_calibration(labels, settings) as file:
        return _calibrate(file, args)


def _calibrate(file: Path, args: argparse.Namespace) -> int:
    if not args.json:
        return _run_pytest(file, args)
    # Another process makes the run, and writes down there which folder it is.
    with tempfile.TemporaryDirectory() as between:
        place = Path(between, "folder")
        status = _run_pytest(file, args, str(place))
        folder = Path(place.read_text(encoding="utf-8")) if place.exists() else None
    if status == USAGE_ERROR:  # pytest has printed why
        return status
    from pytest_agenteval.calibration.document import calibrate_document
    from pytest_agenteval.calibration.results import page_path, read_calibrations

    calibrations = read_calibrations(folder) if folder else []
    pages = [(Path(short_path(page_path(folder, data["id"]))), data) for data in calibrations if folder]
    write_document(args.json, calibrate_document(Path(short_path(folder)) if folder else None, status, pages))
    return status


def _run_pytest(file: Path, args: argparse.Namespace, run_folder_to: str = "") -> int:
    """Run pytest in a process of its own.

    Where the document goes to the standard output, pytest's output goes to the standard error.
    """
    from pytest_agenteval.session.inner_pytest import RUN_FOLDER_TO, UNCACHED, start_pytest

    options = [f"--agent-judge={judge}" for judge in args.judge]
    options += [f"--agent-record-chat={args.record_chat}"] if args.record_chat else []
    options += [f"--agent-results={args.results}"] if args.results else []
    process = start_pytest(
        ["-p", "agenteval", *UNCACHED, "-rs", *options, str(file)],
        output=STANDARD_ERROR if args.json == STDOUT else None,
        # addopts of the project, say -x or workers, are meant for its other tests.
        environment={**os.environ, "PYTEST_ADDOPTS": "", RUN_FOLDER_TO: run_folder_to},
    )
    while True:
        try:
            return process.wait()
        # The terminal sends Ctrl-C to pytest as well, and pytest's own status is what counts.
        except KeyboardInterrupt:
            continue


def _thresholds(options: Sequence[str]) -> dict[str, Any]:
    """Read ``spearman=0.7`` and ``spearman.coherence=0.7``."""
    thresholds: dict[str, Any] = {}
    for text in options:
        name, _, number = text.partition("=")
        metric, dot, dimension = name.strip().partition(".")
        try:
            value = float(number)
        except ValueError:
            raise UsageMistake(f"--threshold={text}: expected figure=number, as in spearman=0.7") from None
        if not dot:
            thresholds[metric] = value
        elif isinstance(thresholds.setdefault(metric, {}), dict):
            thresholds[metric][dimension] = value
        else:
            raise UsageMistake(f"--threshold={text}: {metric} is set for all dimensions already")
    return thresholds


@contextmanager
def _temporary_calibration(labels: Path, content: dict[str, Any]) -> Iterator[Path]:
    """Make a calibration file for as long as it is needed."""
    import yaml

    try:
        # Beside the labels, so that pytest loads the conftests there.
        handle, name = tempfile.mkstemp(".calibration.yaml", f".{content['id']}-", labels.parent)
    except OSError as refused:
        raise UsageMistake(f"{labels.parent}: cannot write a file here ({refused.strerror})") from None
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            yaml.safe_dump(content, file, allow_unicode=True, sort_keys=False)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
