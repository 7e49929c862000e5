"""Names of one kind of thing: each is taken once, and imported when it is first looked up."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_agenteval.text.errors import (
    AgentEvalError,
    UsageMistake,
    did_you_mean,
    exception_text,
    key_hint,
    nearest_names,
)

if TYPE_CHECKING:
    from pytest_agenteval.agents.agent import Agent

T = TypeVar("T")
PACKAGE = "pytest_agenteval"
_IMPORTING = (__file__, importlib.__file__)


class Deferred(partial[Any]):
    """A claim that is called when its name is first looked up: what it returns is the thing."""


class LazyNames(Generic[T]):
    """One kind of thing by name, with the file and line that registered it.

    A claim is the thing itself, a ``Deferred``, or the text ``package.module:attribute``; ``finish`` makes of
    it what is looked up. ``complete`` is called before every look-up, as names may still be on their way; it
    returns a line for everything that could not be registered.
    """

    def __init__(
        self, kind: str, complete: Callable[[], Sequence[str]], finish: Callable[[Any], T] | None = None
    ) -> None:
        self.kind = kind
        self._complete, self._finish = complete, finish
        self._claims: dict[str, object] = {}
        self._claimants: dict[str, str] = {}
        self._values: dict[str, T] = {}

    def take(self, name: str, claim: object, claimant: str = "") -> None:
        """Take a name for whoever called the caller, or for ``claimant``; raises NameTaken."""
        claimant = claimant or caller_place(3)
        if name in self._claims:
            first = self._claimants[name]
            raise NameTaken(f"the {self.kind} name {name!r} is taken: by {first}, and again by {claimant}")
        self._claims[name], self._claimants[name] = claim, claimant

    def get(self, name: str) -> T:
        """Return what a name stands for, imported if need be; raises UnknownName or NotImported."""
        if name not in self._values:
            broken = self._complete()
            if name not in self._claims:
                raise UnknownName(self.kind, name, self._claims, broken)
            claim = import_claim(self._claims[name], f"{self.kind} {name!r}", self._claimants[name])
            self._values[name] = self._finish(claim) if self._finish else claim
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._claims

    def is_built_in(self, name: str) -> bool:
        """Whether the code behind a name belongs to this package; nothing is imported to see it."""
        claim = self._claims.get(name)
        module = claim if isinstance(claim, str) else getattr(claim, "__module__", "")
        return str(module).startswith(f"{PACKAGE}.")

    @property
    def claimants(self) -> Mapping[str, str]:
        """The file and line that registered each name."""
        self._complete()
        return self._claimants

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order in which they were registered."""
        return tuple(self.claimants)


class NameTaken(UsageMistake):
    """A name that is registered already; the message shows both places."""


class UnknownName(UsageMistake):
    """A name is not registered; names the nearest and all known.

    ``broken`` says what could not be registered: the name may be of it.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], broken: Sequence[str] = ()) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.hint = did_you_mean(name, self.known) or "; ".join(broken)
        names = f"known: {nearest_names(name, self.known)}" if self.known else "there are none"
        rows = [f"unknown {kind} {name!r}", names, self.hint]
        super().__init__("; ".join(row for row in rows if row))


class NotImported(UsageMistake):
    """A name that stands for something to import, which could not be imported."""

    hint = ""

    def __init__(self, what: str, claim: str, claimant: str, raised: Exception) -> None:
        self.expected = f"{claim!r}, which {claimant} registered as the {what}, to be imported"
        self.found = exception_with_place(raised)
        super().__init__(f"expected {self.expected}; found {self.found}")


def import_claim(claim: object, what: str, claimant: str) -> Any:
    """Return what a claim stands for: ``package.module:attribute`` is imported, all else is the thing."""
    if isinstance(claim, Deferred):
        return claim()
    if not isinstance(claim, str):
        return claim
    module, _, attribute = claim.partition(":")
    try:
        if not attribute:
            raise UsageMistake(f"no ':' between the module and the name in it{_with_colon(module)}")
        return getattr(importlib.import_module(module), attribute)
    except Exception as raised:  # an author's module may raise anything
        if module.startswith(f"{PACKAGE}."):
            raise
        raise NotImported(what, claim, claimant, raised) from raised


def _with_colon(dotted: str) -> str:
    package, dot, name = dotted.rpartition(".")
    return f"; did you mean '{package}:{name}'?" if dot and package and name.isidentifier() else ""


def exception_with_place(raised: Exception) -> str:
    """Write in one line what was raised, and in which line of whose file."""
    frames = [frame for frame in extract_tb(raised.__traceback__) if frame.filename[:1] != "<"]
    last = frames[-1] if frames else None
    place = f" ({last.filename}:{last.lineno})" if last and last.filename not in _IMPORTING else ""
    text = " ".join(exception_text(raised).split())
    # A mistake that we found says all: who made it, and where. Our own line would lead nowhere.
    return text if isinstance(raised, AgentEvalError) else f"{type(raised).__name__}: {text}{place}"


def resolve_place(place: Path | str) -> Path:
    """Return the path of a file or folder: as it is, or ``package:path`` below an importable package."""
    # Raises UsageMistake where there is no such package.
    package, colon, inner = str(place).partition(":")
    if isinstance(place, Path) or not colon or not all(map(str.isidentifier, package.split("."))):
        return Path(place)
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except ImportError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageMistake(f"expected a package in {place!r}; found none that is called {package}")
    return Path(spec.submodule_search_locations[0], inner)


def caller_place(depth: int = 2) -> str:
    """Return the file and line of a call, so many frames up: by default that of whoever called the caller."""
    frame = sys._getframe(depth)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def import_suite_agent(form: Mapping[str, Any]) -> Callable[..., Agent]:
    """Return the factory of an agent that a suite.yaml describes; raises UsageMistake where there is none."""
    from pytest_agenteval.agents.forms import agent_factory_of

    call = form.get("call")
    if not call:
        return agent_factory_of(form)
    # The import of litellm would ask a server for a list of prices, before any trial.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # They stay: what is imported later, while it runs, is found there too.
    sys.path.extend(path for path in form.get("paths", ()) if path not in sys.path)
    try:
        return agent_factory_of(form, import_claim(call, "agent", "suite.yaml"))
    except NotImported as missing:
        cause, near = missing.__cause__, ""
        if isinstance(cause, AttributeError) and cause.name:
            near = did_you_mean(cause.name, dir(cause.obj))
        raise AgentNotImported(form, missing.found, near) from cause
    except UsageMistake as mistake:  # it is there, and nothing that acts
        raise AgentNotImported(form, str(mistake)) from None


class AgentNotImported(NotImported):
    """What a suite's ``call`` names cannot be imported, or is nothing that acts."""

    def __init__(self, form: Mapping[str, Any], found: str, near: str = "") -> None:
        self.expected = (
            "package.module:name of the agent: a function, an object with `run`, or a class with `run`"
        )
        self.found = found if form["call"] in found else f"{form['call']!r}: {found}"
        places = [*form.get("paths", ()), "wherever Python looks"]
        lacks_module = found.startswith("ModuleNotFoundError") and not found.endswith(")")
        self.hint = (
            f"modules are looked for in {' and '.join(places)}" if lacks_module else near or key_hint(found)
        )
        UsageMistake.__init__(self, f"agent: expected {self.expected}; found {self.found}")
