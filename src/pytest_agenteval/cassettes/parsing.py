"""Reads the text of a cassette file, and knows on which line each part stands."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pytest_agenteval.errors import KeyPath, Problem, ProblemsFound


def problem(
    name: str, line: int | None, path: KeyPath, expected: str, found: str, hint: str = ""
) -> ProblemsFound:
    """Make the error that says what is wrong with one place of one file."""
    return ProblemsFound([Problem(name, line, path, expected, found, hint)])


def parsed(text: str, is_json: bool, name: str) -> Any:
    """Read plain data; what cannot be read is a problem with its line."""
    if is_json:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as why:
            raise problem(name, getattr(why, "lineno", None), (), "JSON", str(why)) from None
    return _parsed_yaml(text, name)


def _parsed_yaml(text: str, name: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark else None
        found = " ".join(filter(None, (why.context, why.problem)))
        raise problem(name, line, (), "YAML as vcrpy writes it", found) from None
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        raise problem(name, None, (), "YAML as vcrpy writes it", " ".join(str(why).split())) from None


@cache
def _loader() -> Any:
    """Give PyYAML's safe loader, in C if it can be, with the tags that older vcrpy wrote for plain values."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("CassetteLoader", (base,), {})
    for kind in ("str", "unicode"):
        loader.add_constructor(f"tag:yaml.org,2002:python/{kind}", base.construct_scalar)
    loader.add_constructor("tag:yaml.org,2002:python/tuple", base.construct_sequence)
    return loader


def line_of(text: str, path: KeyPath) -> int | None:
    """Give the line on which a part of the file stands, or that of its nearest parent that exists."""
    import yaml

    try:
        node: Any = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return None
    line = node.start_mark.line
    for step in path:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if step not in pairs:
                break
            key, node = pairs[step]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
    return int(line) + 1
