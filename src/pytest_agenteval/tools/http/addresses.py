"""What an author may write as an address: names in braces stand for anything that holds no slash."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_NAME = re.compile(r"\$?\{[^{}\s]+\}")
_ADDRESS = re.compile(r"https?://[^\s/?#{}]+(?:/[^\s?#{}]*)?")
_PATH = re.compile(r"/[^\s?#{}]*")


def is_address(text: str) -> bool:
    """Whether this is the address of a server, perhaps with a path, and no query."""
    plain = _NAME.sub("x", text)
    try:
        return bool(_ADDRESS.fullmatch(plain)) and urlsplit(plain).port != 0
    except ValueError:  # a port that is no port
        return False


def is_path(text: str) -> bool:
    """Whether this can stand behind the address of a server."""
    return bool(_PATH.fullmatch(_NAME.sub("x", text)))
