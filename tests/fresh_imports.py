"""Which libraries a program imports, in a Python that has imported neither them nor this package."""

from __future__ import annotations

from typing import Any

from tests.forked_workers import run_python

FORGET = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] in {forgotten!r}]:
    del sys.modules[name]
"""
SHOW = """
print(*[name for name in {libraries!r} if name in sys.modules])
"""


def imported_by(code: str, *libraries: str, **settings: Any) -> list[str]:
    """Run a program, which must end well, and give those of the libraries that it has imported."""
    program = FORGET.format(forgotten=("pytest_agenteval", *libraries)) + code
    done = run_python("-c", program + SHOW.format(libraries=libraries), **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout).splitlines()[-1].split()
