"""Images, sounds and files of messages, told in a few words: nobody reads base64 in a transcript."""

from __future__ import annotations

import re

_DATA_URL = re.compile(r"data:([\w.+/-]*)(?:;[\w.=+-]+)*?;base64,", re.I)
_LONGEST = 200


def placeholder(kind: str, *words: str) -> str:
    """Write an attachment as ``[image image/png, 2.1 kB]``; empty words are left out."""
    about = ", ".join(word for word in words if word)
    return f"[{kind} {about}]" if about else f"[{kind}]"


def base64_placeholder(kind: str, data: object, mime: str = "", name: str = "") -> str:
    """Tell an attachment by its base64 text."""
    return placeholder(kind, name, mime, size_of_base64(data if isinstance(data, str) else ""))


def url_placeholder(kind: str, url: object, name: str = "") -> str:
    """Tell an attachment by its address, or by type and size where the address holds it all."""
    url = url if isinstance(url, str) else ""
    if url[:5].lower() != "data:":
        return placeholder(kind, name, url if len(url) <= _LONGEST else f"{url[:_LONGEST]}…")
    match = _DATA_URL.match(url)
    return (
        base64_placeholder(kind, url[match.end() :], match[1], name)
        if match
        else placeholder(kind, name, "data")
    )


def data_placeholder(kind: str, data: str, name: str = "") -> str:
    """Tell an attachment by its base64 text, which may stand in an address of its own."""
    return (
        url_placeholder(kind, data, name)
        if data[:5].lower() == "data:"
        else base64_placeholder(kind, data, name=name)
    )


def size_of_base64(data: str) -> str:
    """Give how much a base64 text holds, as people write it."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
