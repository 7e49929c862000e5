"""``agenteval calibrate``: pytest is started on a calibration; judges are asked there, and nowhere else."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.cli.options import RESULTS
from pytest_agenteval.cli.output import STDOUT, add_json_option, write_document
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.calibration.document import CalibrateDocument
    from pytest_agenteval.store.run_schemas import Schema

STANDARD_ERROR = 2
USAGE_ERROR = 4
YAML = (".yaml", ".yml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    add("labels", metavar="LABELS", help="labels (.jsonl, .csv), or a calibration file (.yaml)")
    add("--rubric", metavar="NAME", help="a rubric's name or .jinja file (default: LABELS')")
    add("--judge", action="append", default=[], metavar="MODEL", help="who judges; several are an ensemble")
    add("--repeats", type=int, metavar="N", help="ask so often about each, to see judges' noise")
    add("--threshold", action="append", default=[], metavar="FIGURE=N", help="to be reached: spearman=0.7, spearman.DIMENSION=0.7")  # fmt: skip  # noqa: E501
    add("--tolerance", type=float, metavar="T", help="how far from its label is near (default: 0.15)")
    add("--scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="the labels' scale (default: 0 1)")
    add("--seed", type=int, metavar="N", help="the seed of the intervals (default: 0)")
    add("--record-chat", metavar="MODE", help="off, none, once, new_episodes, all (docs/judges.md)")  # fmt: skip  # noqa: E501
    add_json_option(parser)
    add("--results", metavar="DIR", help=RESULTS)


def calibrate(args: argparse.Namespace) -> int:
    """Start pytest on the calibration and give its exit status; it prints the figures and names the page."""
    labels = Path(args.labels)
    if not labels.is_file():
        raise UsageMistake(f"{labels}: expected a file of labels or a calibration; there is none")
    settings = _settings(args)
    if labels.suffix.lower() in YAML:
        if settings:
            raise UsageMistake(f"{labels} is a calibration file: {', '.join(settings)} is said in it")
        return _calibrate(labels, args)
    with _file_beside(labels, {**settings, **_about(labels, args)}) as file:
        return _calibrate(file, args)


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.calibration.document import CalibrateDocument
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("calibrate", CalibrateDocument)


def _calibrate(file: Path, args: argparse.Namespace) -> int:
    if not args.json:
        return _pytest(file, args)
    from pytest_agenteval.session import run_folder

    with tempfile.TemporaryDirectory() as between:
        place = Path(between, "folder")
        status = _pytest(file, args, "-p", run_folder.__name__, f"{run_folder.OPTION}={place}")
        folder = Path(place.read_text(encoding="utf-8")) if place.exists() else None
    if status == USAGE_ERROR:  # pytest said why
        return status
    write_document(args.json, _document(folder, status))
    return status


def _document(folder: Path | None, status: int) -> CalibrateDocument:
    from pytest_agenteval.calibration.document import calibrate_document
    from pytest_agenteval.calibration.storage import page_path, read_calibrations
    from pytest_agenteval.tasks.documents import short_path

    calibrations = read_calibrations(folder) if folder else []
    pages = [(Path(short_path(page_path(folder, data["id"]))), data) for data in calibrations if folder]
    return calibrate_document(Path(short_path(folder)) if folder else None, status, pages)


def _pytest(file: Path, args: argparse.Namespace, *more: str) -> int:
    """Run pytest in a process of its own; Ctrl-C reaches it too, and it ends in its own way.

    Where the document goes to the standard output, what pytest prints goes to the standard error.
    """
    from pytest_agenteval.registry.registration import without_addopts
    from pytest_agenteval.session.inner_pytest import UNCACHED, start_pytest

    options = [f"--agent-judge={judge}" for judge in args.judge]
    options += [f"--agent-record-chat={args.record_chat}"] if args.record_chat else []
    options += [f"--agent-results={args.results}"] if args.results else []
    with without_addopts():
        process = start_pytest(
            ["-p", "agenteval", *UNCACHED, "-rs", *more, *options, str(file)],
            output=STANDARD_ERROR if args.json == STDOUT else None,
        )
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Give what a calibration file would say beside labels and rubric."""
    settings = {
        "rubric": args.rubric,
        "repeats": args.repeats,
        "thresholds": dict(_thresholds(args.threshold)),
        "tolerance": args.tolerance,
        "scale": args.scale,
        "seed": args.seed,
    }
    return {key: value for key, value in settings.items() if value not in (None, {})}


def _thresholds(options: Sequence[str]) -> Iterator[tuple[str, Any]]:
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
            raise UsageMistake(f"--threshold={text}: {metric} is wanted of all dimensions already")
    yield from thresholds.items()


def _about(labels: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Give kind, id, labels and rubric of a calibration of these labels."""
    from pytest_agenteval.registry.installed import installed_registry

    rubric = labels.stem
    names = installed_registry().rubric_names if args.rubric is None else ()
    if args.rubric is None and rubric not in names:
        choices = ", ".join(names)
        raise UsageMistake(f"which rubric? say --rubric=R: a .jinja file, or one of {choices}")
    if args.rubric is not None:
        is_file = args.rubric.endswith(".jinja")
        rubric = Path(os.path.relpath(args.rubric, labels.parent)).as_posix() if is_file else args.rubric
    id = re.sub(r"[\s/\\:\[\]]+", "_", labels.stem)
    return {"kind": "calibration", "id": id, "labels": labels.name, "rubric": rubric}


@contextmanager
def _file_beside(labels: Path, content: dict[str, Any]) -> Iterator[Path]:
    """Make a calibration file for as long as it is needed, beside the labels: conftests there are heeded."""
    import yaml

    try:
        handle, name = tempfile.mkstemp(".calibration.yaml", f".{content['id']}-", labels.parent)
    except OSError as refused:
        raise UsageMistake(f"{labels.parent}: no file can be made here ({refused.strerror})") from None
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            yaml.safe_dump(content, file, allow_unicode=True, sort_keys=False)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
