"""Names of one kind of thing: each is taken once, and imported when it is first looked up."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, Generic, TypeAlias, TypeVar

from pytest_agenteval.text.errors import AgentEvalError, UsageMistake, exception_text, nearest, nearest_names

T = TypeVar("T")
PACKAGE = "pytest_agenteval"
_IMPORTING = (__file__, importlib.__file__)


@dataclass(frozen=True, slots=True)
class Deferred:
    """A claim that is made when its name is first looked up."""

    make: Callable[[], Any]

    def __call__(self) -> Any:
        """Make it."""
        return self.make()


class LazyNames(Generic[T]):
    """One kind of thing by name, with who offered it.

    A claim is the thing itself, or the text ``package.module:attribute`` that says where it is. ``finish``
    makes of the claim what is looked up. ``complete`` is called before every look-up, as
    names may still be on their way; it gives what could not be registered, in a line each.
    """

    def __init__(
        self, kind: str, complete: Callable[[], Sequence[str]], finish: Callable[[Any], T] | None = None
    ) -> None:
        self.kind = kind
        self._complete, self._finish = complete, finish
        self._claims: dict[str, object] = {}
        self._claimants: dict[str, str] = {}
        self._values: dict[str, T] = {}

    def take(self, name: str, claim: object, claimant: str) -> None:
        """Take a name; raises NameTaken, which shows both claimants, where it is taken."""
        if name in self._claims:
            first = self._claimants[name]
            raise NameTaken(f"the {self.kind} name {name!r} is taken: by {first}, and again by {claimant}")
        self._claims[name], self._claimants[name] = claim, claimant

    def get(self, name: str) -> T:
        """Give what a name stands for, imported if need be; raises UnknownName or NotImported."""
        if name not in self._values:
            broken = self._complete()
            if name not in self._claims:
                raise UnknownName(self.kind, name, self._claims, broken)
            claim = self._imported(name)
            self._values[name] = self._finish(claim) if self._finish else claim
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        """Whether a name is taken already."""
        return name in self._claims

    def claim_of(self, name: str) -> object:
        """Give what was registered under a name, not imported; None where nothing was."""
        return self._claims.get(name)

    def claimant_of(self, name: str) -> str:
        """Give who took a name, which is one of ``names``."""
        return self._claimants[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order in which they were taken."""
        self._complete()
        return tuple(self._claims)

    def _imported(self, name: str) -> Any:
        claim = self._claims[name]
        return import_claim(claim, f"{self.kind} {name!r}", self._claimants[name])


class NameTaken(UsageMistake):
    """A name that somebody has taken already; shows the places of both."""


class UnknownName(UsageMistake):
    """A name that nobody has registered; says which name is near and which are known.

    ``broken`` says what could not be registered: the name may be of it.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], broken: Sequence[str] = ()) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.hint = nearest(name, self.known) or "; ".join(broken)
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
    """Give what a claim stands for: ``package.module:attribute`` is imported, all else is the thing."""
    if isinstance(claim, Deferred):
        return claim.make()
    if not isinstance(claim, str):
        return claim
    module, _, attribute = claim.partition(":")
    try:
        if not attribute:
            raise UsageMistake("a text without ':' between the module and what is meant of it")
        return getattr(importlib.import_module(module), attribute)
    except Exception as raised:  # an author's module may raise anything
        if module.startswith(f"{PACKAGE}."):
            raise
        raise NotImported(what, claim, claimant, raised) from raised


def exception_with_place(raised: Exception) -> str:
    """Say in one line what an import raised, and in which line of whose file."""
    frames = [frame for frame in extract_tb(raised.__traceback__) if frame.filename[:1] != "<"]
    last = frames[-1] if frames else None
    place = f" ({last.filename}:{last.lineno})" if last and last.filename not in _IMPORTING else ""
    text = " ".join(exception_text(raised).split())
    # A mistake that we found says all: who made it, and where. Our own line would lead nowhere.
    return text if isinstance(raised, AgentEvalError) else f"{type(raised).__name__}: {text}{place}"


def resolve_place(place: Path | str) -> Path:
    """Give the path of a file or folder: as it is, or ``package:path`` below a package that can be imported.

    Raises UsageMistake where there is no such package.
    """
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
    """Say where a registration was made: file and line of whoever called, so many frames up."""
    frame = sys._getframe(depth)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


Place: TypeAlias = "Path | str"
"""A file or folder: its path, or ``package:path`` for one that is installed with a package."""


class RubricFolders:
    """Folders of rubrics, with who registered them; ``files`` finds each rubric's file by its name.

    ``complete`` gives what installed benchmarks could not register, ``note_broken`` is told of a folder that
    cannot be used.
    """

    def __init__(self, complete: Callable[[], Sequence[str]], note_broken: Callable[[str], None]) -> None:
        self._complete, self._note_broken = complete, note_broken
        self._folders: list[tuple[Place, str]] = []
        self.files: LazyNames[Path] = LazyNames("rubric", self._list_folders)

    def add(self, folder: Place, claimant: str) -> None:
        """Take a folder, whose disk is not read yet."""
        self._folders.append((folder, claimant))

    def _list_folders(self) -> Sequence[str]:
        broken = self._complete()
        while self._folders:
            folder, by = self._folders[0]
            files = {file.stem: file for file in self._rubrics_in(folder, by)}
            # The folder stays in the list where one of its names is taken, so that every look-up says so.
            for name in sorted(files, key=lambda name: name not in self.files):
                self.files.take(name, files[name], by)
            del self._folders[0]
        return broken

    def _rubrics_in(self, folder: Place, by: str) -> Sequence[Path]:
        """List a folder's rubrics; one that is not there is noted, and keeps nobody from those of others."""
        try:
            path = resolve_place(folder)
            if path.is_dir():
                return sorted(path.glob("*.jinja"))
            missing = f"expected a folder: {path}; found none"
        except UsageMistake as mistake:
            missing = str(mistake)
        self._note_broken(f"the rubrics that {by} registered cannot be used: {missing}")
        return ()
