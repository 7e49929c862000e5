"""Writes YAML that people read: any script unescaped, keys in our order, nothing referred to twice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

WIDTH = 110


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write one file, and the folders above it; give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml_text(content), encoding="utf-8", newline="\n")
    return path


def yaml_text(content: Mapping[str, Any]) -> str:
    """Write a map as YAML."""
    import yaml

    return yaml.dump(content, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=WIDTH)


@cache
def _dumper() -> Any:
    """Give PyYAML's safe dumper without anchors, which are hard to read and to edit."""
    import yaml

    base: Any = yaml.SafeDumper
    return type("PlainDumper", (base,), {"ignore_aliases": lambda *_: True})
