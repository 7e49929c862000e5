"""What is said of an agent that nobody has registered, of the servers around it, and of its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.field_types import Count, Map, Named, Positive, Spec, expects


class McpSpec(Spec, frozen=True, kw_only=True):
    """Where a server is that speaks MCP: either a command that starts one, or an address."""

    command: Annotated[tuple[Named, ...], expects("a list: the program and its arguments")] = ()
    env: Annotated[
        Mapping[str, str], expects("a map from variables to texts; ${NAME} in them is one of yours")
    ] = NOTHING
    cwd: Annotated[str, expects("the folder it starts in, from the suite's folder")] = ""
    url: Annotated[str, expects("an address: http://… or https://…")] = ""
    headers: Annotated[
        Mapping[str, str], expects("a map from headers to texts; ${NAME} in them is a variable of yours")
    ] = NOTHING


class ServedTools(Spec, frozen=True, kw_only=True):
    """Tools of a server that speaks MCP: which server, which of its tools, and for how long it runs."""

    mcp: Annotated[McpSpec, expects("a map: `command`, which starts the server, or `url`")]
    only: Annotated[tuple[Named, ...], expects("a list of names of its tools (all, if not said)")] = ()
    prefix: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,40}\Z")],
        expects("letters, digits, _ and -, put before the name of each tool"),
    ] = ""
    share: Annotated[
        Literal["trial", "session"],
        expects("trial: each trial starts a server of its own; session: all trials of a process use one"),
    ] = "trial"
    seconds: Annotated[Positive, expects("a number of seconds above 0: how long a call may take")] = 60.0


AGENT_FORMS = ("call", "command", "http")
"""Ways to say where an agent is that nobody has registered; a form holds one of these keys."""


class AgentForm(Spec, frozen=True, kw_only=True, rename={"shape": "as"}):
    """An agent that nobody has registered: a Python function, a command, or an HTTP endpoint."""

    call: Annotated[
        Named | None, expects("what acts, as package.module:name: a function, an object with run, a class")
    ] = None
    command: Annotated[tuple[Named, ...] | None, expects("a list of texts: a program and its arguments")] = (
        None
    )
    http: Annotated[Named | None, expects("the address of an endpoint: http://...")] = None
    name: Annotated[Named | None, expects("a text: what reports call the agent")] = None
    loop: Annotated[
        Literal["own", "shared"],
        expects("own or shared: the event loop of an async function, one per trial or one for all"),
    ] = "own"
    args: Annotated[
        Mapping[str, str],
        expects("a map from parameters of the function to what each is given: {q: content}"),
    ] = NOTHING
    output: Annotated[
        Literal["events", "text"], expects("events or text: what a command's standard output is")
    ] = "events"
    shape: Annotated[
        Literal["json", "openai", "anthropic"],
        expects("json, openai or anthropic: the shape of an endpoint's requests and replies"),
    ] = "json"
    headers: Annotated[
        Mapping[str, str], expects("a map of HTTP headers; ${NAME} is an environment variable")
    ] = NOTHING
    body: Annotated[Map | None, expects("a map: the JSON body that an endpoint is sent")] = None
    answer: Annotated[Named | None, expects("the path of the answer's text in an endpoint's reply")] = None
    state: Annotated[Named | None, expects("the path of the end state in an endpoint's reply")] = None
    calls: Annotated[Named | None, expects("the path of the tool calls in an endpoint's reply")] = None
    usage: Annotated[Named | None, expects("the path of the token counts in an endpoint's reply")] = None
    request_seconds: Annotated[
        Positive | None, expects("a number of seconds above 0: how long one request to an endpoint may take")
    ] = None
    otel: Annotated[bool, expects("true or false: whether OpenTelemetry spans tell what it does")] = False

    def title(self, suite: str) -> str:
        """Give what reports call the agent: its name, else what says where it is."""
        if self.name:
            return self.name
        if self.call:
            return self.call
        if self.http:
            return f"{suite}:{(self.http.partition('://')[2] or self.http).partition('/')[0]}"
        programs = [part for part in self.command or () if not part.startswith("-")]
        return f"{suite}:{programs[-1].replace(chr(92), '/').rpartition('/')[2] if programs else ''}"


class HttpRules(Spec, frozen=True, kw_only=True):
    """What is to be known of the servers that an agent asks by itself."""

    models: Annotated[
        tuple[Named, ...], expects("a list of addresses of model servers whose paths are unusual")
    ] = ()
    ignore: Annotated[
        tuple[Named, ...], expects("a list of hosts, as *.sentry.io, that are answered 204 in a replay")
    ] = ()


NO_HTTP_RULES = HttpRules()


class UserSpec(Spec, frozen=True, kw_only=True):
    """A person whom a model plays: who they are, what they want, and when they are done."""

    goal: Annotated[Named, expects("a text: what the user wants, with all that they know")]
    persona: Annotated[str, expects("a text: who the user is, and how they write")] = ""
    stop: Annotated[str, expects("a text: when the user is done")] = ""
    most_turns: Annotated[Count | None, expects("a whole number, 1 or more: how often the user speaks")] = (
        None
    )
