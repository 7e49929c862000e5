"""``agenteval import tiny``: a list of names becomes a suite."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pytest_agenteval import Registry, UsageMistake

SUITE = "name: greetings\nkind: regression\nagent: tiny_greeter\ntools: [tiny_names]\n"


class TinyImporter:
    """Makes one task of each name in a text file."""

    help = "a text file with a name on each line"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what stands behind its name on the command line."""
        parser.add_argument("names", metavar="FILE", help="the file")
        parser.add_argument("--to", required=True, metavar="DIR", help="the suite's folder")
        parser.add_argument("--grader", default="tiny", help="who grades: a grader or a group")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Write the suite."""
        names = Path(args.names)
        if not names.is_file():
            raise UsageMistake(f"{names}: expected a text file; found none")
        if args.grader not in registry.graders:
            raise UsageMistake(f"--grader={args.grader}: nobody registered it")
        tasks = [
            {
                "id": f"greet_{name}",
                "input": {"content": f"Greet guest {number}."},
                "reference_solution": {"turns": [{"text": f"Hello, {name}!"}]},
                "graders": [
                    {"name": args.grader},
                    {"name": "judge", "config": {"rubric": "tiny_tone"}},
                ],
            }
            for number, name in enumerate(names.read_text(encoding="utf-8").split(), 1)
        ]
        target = Path(args.to)
        target.mkdir(parents=True, exist_ok=True)
        (target / "suite.yaml").write_text(SUITE, encoding="utf-8")
        (target / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
        print(f"{len(tasks)} tasks: {target}")
        return 0
