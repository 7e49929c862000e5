"""Variants: named sets of prompt files, read where ``--agent-prompt`` names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.records.plan import Variant

FORBIDDEN = frozenset("@[]: ,/")
"""What may not stand in a variant's name, which is part of test ids."""


def variants_of(texts: Sequence[str], place: str, folder: Path) -> tuple[Variant, ...]:
    """Read each ``NAME=PATH``, paths taken from ``folder``; ``place`` is where they were said."""
    found = tuple(_variant(text, place, folder) for text in texts)
    names = [variant.name for variant in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageMistake(f"{place}: the variant {name!r} is named more than once")
    return found


def _variant(text: str, place: str, folder: Path) -> Variant:
    """Read a variant: a folder of prompt files, or one file that stands for ``system``."""
    name, sign, where = text.partition("=")
    if not sign or not name or not where:
        raise UsageMistake(f"{place}: expected NAME=PATH; found {text!r}")
    if not name.isascii() or not name.isprintable() or FORBIDDEN & set(name):
        raise UsageMistake(f"{place}: the name {name!r} may hold ASCII letters, digits, '_', '-' and '.'")
    path = folder / where
    if path.is_dir():
        return Variant(name, _folder(path, f"{place} {name}"))
    if path.is_file():
        return Variant(name, {"system": _text(path, f"{place} {name}")})
    raise UsageMistake(f"{place} {name}: no such file or folder: {where}")


def _folder(path: Path, place: str) -> Mapping[str, str]:
    files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]
    prompts: dict[str, Path] = {}
    for file in files:
        prompt = file.name.partition(".")[0]
        first = prompts.setdefault(prompt, file)
        if first != file:
            raise UsageMistake(f"{place}: two files for the prompt {prompt!r}: {first.name} and {file.name}")
    if not prompts:
        raise UsageMistake(f"{place}: no prompt file in {path}")
    return {prompt: _text(file, place) for prompt, file in prompts.items()}


def _text(file: Path, place: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise UsageMistake(f"{place}: {file} cannot be read: {broken}") from None
