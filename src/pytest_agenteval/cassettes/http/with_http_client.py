"""http.client: a request on a connection that stands already, which nobody taped.

urllib.request and urllib3 stand on top of it: theirs arrive here only where they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.scope import answering
from pytest_agenteval.cassettes.interaction import Request


def places(client: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""
    yield client.HTTPConnection, "putrequest", _asking


def _asking(real: Any) -> Any:
    def putrequest(connection: Any, *args: Any, **kwargs: Any) -> Any:
        scope = answering()
        if scope is not None and not scope.live:
            raise scope.refusal(Request("CONNECT", f"socket://{connection.host}:{connection.port}"))
        return real(connection, *args, **kwargs)

    return putrequest
