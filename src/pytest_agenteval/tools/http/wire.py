"""A declared tool on the wire: its request, its response, and really asking."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.interaction import NOTHING, Request, Response
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.redaction import KNOWN
from pytest_agenteval.tools.http.asking import Asking
from pytest_agenteval.tools.http.checking import TOKEN
from pytest_agenteval.tools.http.declaration import ProviderSpec, ToolDeclaration
from pytest_agenteval.tools.http.showing import Showing
from pytest_agenteval.tools.tool import Tool, ToolFailed, ToolResult


class HttpWire:
    """The wire of one declared tool; see the protocol ``Wire``.

    A ``base`` takes the place of the provider's address where requests are really sent: for tests and
    proxies. What is written down keeps the provider's own.
    """

    def __init__(self, declared: ToolDeclaration, provider: ProviderSpec | None, base: str = "") -> None:
        self.name, self.provider, self.base = declared.name, provider.name if provider else "", base
        self.asking = Asking(declared.request, provider, declared.parameters)
        token = declared.token or (provider.token if provider else None)
        self.token = None if token is None else Asking(token, provider, {})
        self.token_spec = token
        self._showing = Showing(declared.result, (*declared.errors, *(provider.errors if provider else ())))
        asked = (self.asking, *([self.token] if self.token else []))
        named = (name for asking in asked for value in asking.values for name in value.secrets)
        self.secrets = tuple(name for name in dict.fromkeys(named) if name != TOKEN)
        KNOWN.know_variables((*self.secrets, *declared.secrets, *(provider.secrets if provider else ())))

    def request(self, args: Mapping[str, Any]) -> Request:
        """Write a call as the request that asks the provider, with defaults filled in and no secret."""
        return self.asking.request(args)

    def args(self, request: Request) -> dict[str, Any]:
        """Read the arguments back out of a request of this tool."""
        return self.asking.args(request)

    def result(self, response: Response, args: Mapping[str, Any] = NOTHING) -> ToolResult:
        """Make of the response to a call what the agent is shown; what says that it failed is an error."""
        return self._showing.result(response, self.asking.filled(args))

    async def send(self, args: Mapping[str, Any]) -> Response:
        """Really ask the provider; raises ToolFailed where it is out of reach, UsageMistake without a key."""
        from pytest_agenteval.tools.http.sending import sent

        self._need_secrets()
        response = await sent(self, args)
        kept = {name: value for name, value in response.headers.items() if name.lower() == "content-type"}
        return Response(response.status, response.message, kept, response.body)

    def _need_secrets(self) -> None:
        missing = [name for name in self.secrets if not os.environ.get(name)]
        if missing:
            names = " and ".join(f"${name}" for name in missing)
            raise UsageMistake(f"the tool {self.name!r} asks its provider, which takes {names}: not set")


def http_tool(declared: ToolDeclaration, provider: ProviderSpec | None = None, base: str = "") -> Tool:
    """Make the tool of a declaration."""
    wire = HttpWire(declared, provider, base)

    async def ask(args: Mapping[str, Any]) -> Any:
        result = wire.result(await wire.send(args), args)
        if result.error is not None:
            raise ToolFailed(result.error.message, result.error.type)
        return result.value

    spec = ToolSpec(
        declared.name,
        declared.description.strip(),
        declared.parameters,
        checked=declared.checked,
        taped=True,
        blocking=False,
    )
    return Tool(spec, ask, wire=wire, matching=declared.matching)
