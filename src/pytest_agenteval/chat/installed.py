"""Libraries that cannot be imported: no fault of a provider's, and no better when tried again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from pytest_agenteval.errors import NotInstalled

DISTRIBUTION = "pytest-agenteval"
NEEDED = ("litellm", "mcp")
"""What asking a real model takes, beside what these bring along."""

_NAME = re.compile(r"[\w.-]+")


def import_failure(raised: BaseException) -> NotInstalled | None:
    """Give what an import that failed on the way to this exception means to the user, or None."""
    failed = next((each for each in _led_to(raised) if isinstance(each, ImportError)), None)
    if failed is None:
        return None
    there = ", ".join(f"{name} {_version(name)}" for name in NEEDED)
    wanted = " ".join(f"'{need}'" for need in _requirements())
    return NotInstalled(
        f"{failed}; a real model needs other versions than are installed ({there}): pip install {wanted}"
    )


def _led_to(raised: BaseException) -> Iterator[BaseException]:
    """Give what was raised, and what that was raised for or while, back to the first."""
    seen: set[int] = set()
    reason: BaseException | None = raised
    while reason is not None and id(reason) not in seen:
        seen.add(id(reason))
        yield reason
        reason = reason.__cause__ or reason.__context__


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _requirements() -> list[str]:
    """Give what this package asks for, as it asks for it."""
    asked = [need.partition(";")[0].strip() for need in requires(DISTRIBUTION) or ()]
    named = [(need, found[0]) for need in asked if (found := _NAME.match(need))]
    return [need for need, name in named if name in NEEDED]
