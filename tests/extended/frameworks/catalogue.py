"""Which frameworks are tried, with which packages, and what is theirs in a transcript."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One way of running a framework: a function of its file in ``bots``, and the wire it speaks.

    ``terminal``: the agent ends with the tool's result, which no model is shown. ``structured``: the model's
    last words are an object. ``loops``: the agent goes on for as long as its model calls tools. ``written``:
    the calls are in the model's texts, and the agent returns them. ``lacked_a_year_ago`` says why only the
    newest is tried.
    """

    function: str
    format: str
    streamed: bool = False
    terminal: bool = False
    structured: bool = False
    loops: bool = True
    written: bool = False
    lacked_a_year_ago: str = ""

    def lacks(self, age: str) -> str:
        """Say why this way is not tried in that age; empty where it is."""
        return self.lacked_a_year_ago if age == "year-old" else ""


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework: ``packages`` are installed from PyPI, or from npm for one of ``node``.

    ``own_prompt``: it adds to the prompts of the agent, to the question, or to results. ``final_tool``: it
    ends by calling ``final_answer``. ``asides``: it asks for other things besides, such as a title. ``slow``:
    each trial starts a heavy program, so that no task is repeated. ``tool`` is what its model is told that
    the tool is called. ``lacked_a_year_ago`` says why only the newest is tried. ``shared_bot``: a file in
    ``bots`` that several frameworks have, which is given the name of the library.
    """

    name: str
    packages: tuple[str, ...]
    cases: tuple[Case, ...]
    own_prompt: bool = False
    final_tool: bool = False
    node: bool = False
    asides: bool = False
    slow: bool = False
    lacked_a_year_ago: str = ""
    tool: str = "get_weather"
    shared_bot: str = ""

    @property
    def module(self) -> str:
        """The name of its Python module, and of its example's in the docs."""
        return self.name.replace("-", "_")

    @property
    def bot(self) -> str:
        """The name of its file in ``bots``."""
        return self.shared_bot or self.module

    def lacks(self, age: str) -> str:
        """Say what its package of that age lacks to be tried at all; empty where nothing."""
        return self.lacked_a_year_ago if age == "year-old" else ""


CHAT, RESPONSES, MESSAGES = "openai.chat", "openai.responses", "anthropic.messages"
GEMINI, OLLAMA, CONVERSE = "gemini", "ollama.chat", "bedrock.converse"
COHERE = "cohere.chat"
UNREAD = {COHERE}
"""Formats that pytest-agenteval does not read: it records them, and says so."""


def _terminal(format: str, streamed: bool = False) -> Case:
    return Case("terminal", format, streamed, terminal=True, loops=False)


def _structured(format: str, streamed: bool = False, loops: bool = True) -> Case:
    return Case("structured", format, streamed, structured=True, loops=loops)


PYTHON = (
    Framework(
        "openai",
        ("openai",),
        (
            Case("chat", CHAT),
            Case("chat_async", CHAT),
            Case("chat_streamed", CHAT, streamed=True),
            Case("chat_streamed_async", CHAT, streamed=True),
            Case("responses", RESPONSES),
            Case("responses_async", RESPONSES),
            Case("responses_streamed", RESPONSES, streamed=True),
            Case("responses_by_id", RESPONSES),
        ),
    ),
    Framework(
        "anthropic",
        ("anthropic",),
        (Case("plain", MESSAGES), Case("plain_async", MESSAGES), Case("streamed", MESSAGES, streamed=True)),
    ),
    Framework(
        "litellm",
        ("litellm",),
        (
            Case("chat", CHAT),
            Case("chat_async", CHAT),
            Case("streamed", CHAT, streamed=True),
            Case("anthropic", MESSAGES),
        ),
    ),
    Framework(
        "pydantic-ai",
        ("pydantic-ai-slim[openai]",),
        (
            Case("run", CHAT),
            Case("sync", CHAT),
            Case("streamed", CHAT, streamed=True),
            Case("responses", RESPONSES),
        ),
    ),
    Framework(
        "openai-agents",
        ("openai-agents",),
        (
            Case("responses", RESPONSES),
            Case("responses_sync", RESPONSES),
            Case("chat", CHAT),
            Case("streamed", RESPONSES, streamed=True),
            _terminal(RESPONSES),
            _structured(RESPONSES),
        ),
    ),
    Framework(
        "langgraph",
        ("langchain", "langgraph", "langchain-openai"),
        (Case("run", CHAT), Case("sync", CHAT), Case("streamed", CHAT, streamed=True)),
    ),
    Framework(
        "smolagents",
        ("smolagents[openai]",),
        (Case("plain", CHAT), Case("streamed", CHAT, streamed=True)),
        own_prompt=True,
        final_tool=True,
    ),
    Framework(
        "llama-index",
        ("llama-index-core", "llama-index-llms-openai"),
        (Case("run", CHAT), Case("streamed", CHAT, streamed=True)),
    ),
    Framework(
        "google-adk",
        ("google-adk", "litellm"),
        (Case("gemini", GEMINI), Case("streamed", GEMINI, streamed=True), Case("litellm", CHAT)),
        own_prompt=True,
    ),
    Framework(
        "google-genai",
        ("google-genai",),
        (
            Case("plain", GEMINI),
            Case("plain_async", GEMINI),
            Case("streamed", GEMINI, streamed=True),
            Case("streamed_async", GEMINI, streamed=True),
        ),
    ),
    Framework(
        "ollama",
        ("ollama",),
        (Case("plain", OLLAMA), Case("plain_async", OLLAMA), Case("streamed", OLLAMA, streamed=True)),
    ),
    Framework(
        "boto3",
        ("boto3",),
        (Case("converse", CONVERSE), Case("streamed", CONVERSE, streamed=True)),
    ),
    Framework(
        "claude-agent-sdk",
        ("claude-agent-sdk",),
        (Case("run", MESSAGES, streamed=True),),
        own_prompt=True,
        asides=True,
        slow=True,
        lacked_a_year_ago="0.1.7 includes no CLI, and disconnects from a CLI before it lists the tools",
        tool="mcp__weather__get_weather",
    ),
    Framework("agno", ("agno", "openai"), (Case("run", CHAT), Case("sync", CHAT)), own_prompt=True),
    Framework(
        "crewai",
        ("crewai",),
        (Case("kickoff", CHAT), Case("kickoff_async", CHAT), _terminal(CHAT), _structured(CHAT)),
        own_prompt=True,
        lacked_a_year_ago="1.5.0 reads tool calls from the model's text, and does not return them",
    ),
    Framework(
        "autogen",
        ("autogen-agentchat", "autogen-ext[openai]"),
        (Case("run", CHAT), Case("streamed", CHAT, streamed=True), _terminal(CHAT), _structured(CHAT)),
    ),
    Framework(
        "haystack",
        ("haystack-ai",),
        (
            Case("sync", CHAT),
            Case("run", CHAT),
            Case("streamed", CHAT, streamed=True),
            _terminal(CHAT),
            _structured(CHAT),
        ),
    ),
    Framework(
        "strands",
        ("strands-agents[openai]",),
        (
            Case("sync", CHAT, streamed=True),
            Case("run", CHAT, streamed=True),
            _terminal(CHAT, streamed=True),
            _structured(CHAT, streamed=True),
        ),
    ),
    Framework(
        "dspy",
        ("dspy",),
        (Case("react", CHAT, written=True), Case("react_async", CHAT, written=True)),
        own_prompt=True,
    ),
    Framework(
        "semantic-kernel",
        ("semantic-kernel",),
        (Case("run", CHAT), Case("streamed", CHAT, streamed=True), _terminal(CHAT), _structured(CHAT)),
        tool="Weather-get_weather",
    ),
    Framework(
        "agent-framework",
        ("agent-framework-core", "agent-framework-openai"),
        (
            Case("responses", RESPONSES),
            Case("chat", CHAT),
            Case("streamed", RESPONSES, streamed=True),
            _terminal(CHAT),
            _structured(CHAT),
        ),
        lacked_a_year_ago="only betas existed",
    ),
    Framework("instructor", ("instructor",), (_terminal(CHAT), _structured(CHAT, loops=False))),
    Framework(
        "mistralai", ("mistralai",), (Case("plain", CHAT), Case("plain_async", CHAT), _structured(CHAT))
    ),
    *(
        Framework(
            name,
            (name,),
            (
                Case("plain", CHAT),
                Case("plain_async", CHAT),
                Case("streamed", CHAT, streamed=True, lacked_a_year_ago=lacked),
                _structured(CHAT),
            ),
            shared_bot="openai_like",
        )
        for name, lacked in (
            ("groq", ""),
            ("together", "its streams have no tool calls"),
            ("huggingface-hub", ""),
        )
    ),
    Framework(
        "ag2",
        ("ag2[openai]",),
        (Case("run", CHAT), _terminal(CHAT), _structured(CHAT)),
    ),
    Framework(
        "deepagents",
        ("deepagents", "langchain-openai"),
        (Case("run", CHAT), Case("sync", CHAT), _structured(CHAT)),
        own_prompt=True,
    ),
    Framework(
        "mirascope",
        ("mirascope[openai]",),
        (
            Case("sync", CHAT),
            Case("run", CHAT),
            Case("streamed", CHAT, streamed=True),
            _structured(CHAT, loops=False),
        ),
    ),
    Framework("cohere", ("cohere",), (Case("plain", COHERE, loops=False),)),
)
NODE = (
    Framework(
        "vercel-ai",
        ("ai", "@ai-sdk/openai", "zod"),
        (Case("responses", RESPONSES), Case("chat", CHAT), Case("streamed", RESPONSES, streamed=True)),
        node=True,
    ),
    Framework(
        "openai-node",
        ("openai",),
        (Case("plain", CHAT), Case("streamed", CHAT, streamed=True)),
        node=True,
    ),
    Framework(
        "langchain-js",
        ("langchain", "@langchain/openai", "@langchain/core", "zod"),
        (Case("plain", CHAT),),
        node=True,
    ),
)
BY_NAME = {each.name: each for each in (*PYTHON, *NODE)}


def addresses(base: str) -> dict[str, str]:
    """Give the environment that leads every client to the loopback server, with keys that open nothing."""
    return {
        "WEATHER_API": base,
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_BASE": f"{base}/v1",
        "OPENAI_API_KEY": "sk-loopback",
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_BASE": base,
        "ANTHROPIC_API_KEY": "sk-ant-loopback",
        "GOOGLE_GEMINI_BASE_URL": base,
        "GOOGLE_API_KEY": "loopback",
        "OLLAMA_HOST": base,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": base,
        "AWS_ACCESS_KEY_ID": "AKIALOOPBACK",
        "AWS_SECRET_ACCESS_KEY": "loopback",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
