"""What every program is given to do: ``WORKLOAD='offline|chat|tools COUNT [ADDRESS]'``, 64 at once.

It stands by itself, for environments in which only a peer is installed.
"""

import os
import sys

ANSWER = "The answer is 42."
TARGET = "42"
AT_ONCE = 64
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Add two numbers.", "parameters": SCHEMA},
}


def given() -> tuple[str, int, str]:
    """Give what is to be done, how often, and the address of the model."""
    kind, count, *address = os.environ["WORKLOAD"].split()
    return kind, int(count), address[0] if address else ""


def question(number: int) -> str:
    """Give the question of a number."""
    return f"What is {number} and 42, less {number}?"


def told(passed: int, count: int) -> None:
    """Fail unless all of them have passed."""
    if passed != count:
        sys.exit(f"only {passed} of {count} have passed")
