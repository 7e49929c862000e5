"""Addresses of the web in texts: the host is whole, the path is compared step by step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from pytest_agenteval.records.record import FrozenValue

_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?:[^\s/@?#]*@)?(?P<host>[^\W_](?:[\w-]*\.)+[^\W\d_]{2,})\.?(?::\d+)?"
    r"(?P<path>/[^\s?#]*)?(?:\?(?P<query>[^\s#]*))?(?:#(?P<part>\S*))?"
)
_ENDS = """
    com org net edu gov info io dev app ai co me tv uk de fr es it nl eu ch at pl se no dk kr jp cn
    tw in br us ca au ru
"""
_USUAL_ENDS = frozenset(_ENDS.split())
_CUTS = re.compile(r"[\s<>\"`|\\^{}「」『』【】《》，。；！？、]+")
_CUTS_TOO = re.compile(r"[()\[\]（）]+")
_AT_EDGES = ".,;:!?'*_~()[]…"


class Address(FrozenValue, frozen=True):
    """Where something stands: a host, a path, and what was asked there."""

    host: str
    path: str = ""
    query: frozenset[str] = frozenset()
    part: str = ""

    def holds(self, other: Address) -> bool:
        """Whether another address is this one, or lies below it; more asked there does not matter."""
        below = not self.path or other.path == self.path or other.path.startswith(f"{self.path}/")
        return (
            self.host == other.host and below and self.query <= other.query and self.part in ("", other.part)
        )


def parse_address(text: str) -> Address | None:
    """Read a folded text that is an address and nothing else; a bare name needs an ending that is usual."""
    found = _ADDRESS.fullmatch(text)
    if found is None or "@" in text.partition("/")[0]:
        return None
    sure = found["scheme"] or found["path"] or found["host"].startswith("www.")
    return _address(found) if sure or found["host"].rpartition(".")[2] in _USUAL_ENDS else None


def find_addresses(text: str, *, ascii_only: bool) -> Iterator[Address]:
    """Give the addresses in a folded text; ``ascii_only`` ends each at the first letter that is not."""
    pieces = _CUTS.split(text)
    inner = [part for piece in pieces for part in _CUTS_TOO.split(piece)]
    for piece in dict.fromkeys([*pieces, *inner]):
        found = _ADDRESS.fullmatch((_ascii(piece) if ascii_only else piece).strip(_AT_EDGES))
        if found is not None:
            yield _address(found)


def _ascii(piece: str) -> str:
    """Give the part of ASCII letters that begins with a letter or a digit."""
    found = re.search(r"[a-z0-9][\x21-\x7e]*", piece)
    return found[0] if found else ""


def _address(found: re.Match[str]) -> Address:
    return Address(
        found["host"].removeprefix("www."),
        unquote(found["path"] or "").strip("/"),
        frozenset((found["query"] or "").split("&")) - {""},
        found["part"] or "",
    )
