"""A server as people write them with the package's own framework, whichever of its versions is installed."""

from __future__ import annotations

import sys
from typing import Any

try:
    from mcp.server.mcpserver import Image
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # before 2.0
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.server.fastmcp import Image

server = Server("library")
lent: list[str] = []


@server.tool()
def find_book(title: str) -> dict[str, Any]:
    """Find a book."""
    return {"title": title, "year": 1851, "lent_to": None}


@server.tool()
def lend(title: str) -> int:
    """Lend a book; give how many are lent."""
    if title in lent:
        raise ValueError(f"{title} is lent already")
    lent.append(title)
    return len(lent)


@server.tool()
def cover() -> Image:
    """Show a cover."""
    return Image(data=b"\x89PNG....", format="png")


def by_address(port: int) -> None:
    """Serve at an address, with what the version takes for its settings."""
    try:
        server.run(transport="streamable-http", port=port)
    except TypeError:  # before 2.0
        server.settings.port = port
        server.run(transport="streamable-http")


if __name__ == "__main__":
    by_address(int(sys.argv[1])) if len(sys.argv) > 1 else server.run()
