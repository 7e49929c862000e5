"""Evals of LLM agents as pytest items: trials that replay, grades that explain themselves.

What graders, agents, tools, importers, benchmarks and hooks may use is imported from here, and from nowhere
below: ``from pytest_agenteval import Check, Evidence, Grade``. Everything else may change without notice.
A name is imported from its module when it is first used, so that a plugin that nobody uses costs nothing.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_OFFERED = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULE_OF = {
    name: module
    for module, names in re.findall(r"^from pytest_agenteval\.(\S+) import (.+)$", _OFFERED, re.MULTILINE)
    for name in re.findall(r" as (\w+)", names)
}
"""The module below this package of each name that is offered: ``__init__.pyi`` lists them."""

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import an offered name from its module (PEP 562); any other name is an AttributeError."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Stored in the module, so that Python finds the name without this function from now on.
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    """List what is offered, imported or not."""
    return sorted({*globals(), *_MODULE_OF})
