"""The tools of the set ``tiny_names``."""

from __future__ import annotations


def look_up_name(number: int) -> str:
    """Give the name of the guest with this number."""
    return {1: "Mina", 2: "Jun"}[number]
