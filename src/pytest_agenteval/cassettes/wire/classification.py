"""Which requests ask a model, and in which wire format: found by path and body, whatever the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, unquote, urlsplit

from pytest_agenteval.cassettes.interaction import Request, Response, text_of
from pytest_agenteval.cassettes.wire.traffic import (
    Classified,
    Json,
    UnreadableTraffic,
    as_text,
    json_object,
    maps_in,
)
from pytest_agenteval.records.record import NOTHING, FrozenValue

KNOWN_MODEL_HOSTS = (
    "api.openai.com", "*.api.openai.com", "*.openai.azure.com", "*.services.ai.azure.com",
    "*.cognitiveservices.azure.com", "*.models.ai.azure.com", "models.inference.ai.azure.com",
    "models.github.ai", "api.anthropic.com", "generativelanguage.googleapis.com",
    "*aiplatform.googleapis.com", "bedrock-runtime*.amazonaws.com", "bedrock-mantle*.amazonaws.com",
    "openrouter.ai", "api.groq.com", "api.mistral.ai", "codestral.mistral.ai", "api.deepseek.com",
    "api.x.ai", "api.together.xyz", "api.together.ai", "api.fireworks.ai", "api.cohere.com",
    "api.cohere.ai", "api.perplexity.ai", "api.cerebras.ai", "api.moonshot.ai", "api.moonshot.cn",
    "dashscope*.aliyuncs.com", "api.z.ai", "open.bigmodel.cn", "api.minimax.io",
    "router.huggingface.co", "api-inference.huggingface.co", "integrate.api.nvidia.com",
    "api.sambanova.ai", "api.deepinfra.com", "api.studio.nebius.ai", "api.hyperbolic.xyz",
    "api.replicate.com", "api.ai21.com", "gateway.ai.cloudflare.com", "ai-gateway.vercel.sh",
    "localhost:11434", "127.0.0.1:11434",
)  # fmt: skip
"""Hosts of model APIs; one with a port is known at that port alone (Ollama's)."""


def _is_known_model_host(address: SplitResult) -> bool:
    host, port = _place(address)
    return any(fnmatchcase(f"{host}:{port}" if ":" in known else host, known) for known in KNOWN_MODEL_HOSTS)


def _is_below(address: SplitResult, named: str) -> bool:
    # A user names a host, with a port or without one, or a base URL. Without ``//`` a host would be a path.
    base = urlsplit(named if "://" in named else f"//{named}")
    host, port = _place(address)
    named_host, named_port = _place(base) if base.scheme else (base.hostname or "", _port(base))
    same_host = fnmatchcase(host, named_host) and named_port in (None, port)
    below = f"{address.path}/".startswith(f"{base.path.rstrip('/')}/")
    return same_host and below


def _place(address: SplitResult) -> tuple[str, int | None]:
    port = _port(address)
    return address.hostname or "", port or {"http": 80, "https": 443}.get(address.scheme)


def _port(address: SplitResult) -> int | None:
    # A port that is no number, or above 65,535, is a ValueError.
    try:
        return address.port
    except ValueError:
        return None


OTHER, AUXILIARY, UNREAD = Classified("other"), Classified("auxiliary"), Classified("unread")


def _has_messages(body: Json) -> bool:
    return bool(maps_in(body.get("messages")))


def _has_named_messages(body: Json) -> bool:
    """Whether a model and messages with roles are given."""
    # User interfaces post messages too, to their own server and without a model.
    roles = [message.get("role") for message in maps_in(body.get("messages"))]
    return isinstance(body.get("model"), str) and bool(roles) and all(isinstance(role, str) for role in roles)


def _has_input(body: Json) -> bool:
    named = isinstance(body.get("model"), str) or isinstance(body.get("prompt"), dict)
    return named and any(name in body for name in ("input", "prompt", "previous_response_id", "conversation"))


def _has_anthropic_version(body: Json) -> bool:
    return _has_messages(body) and as_text(body.get("anthropic_version")) != ""


def _has_system_beside_messages(body: Json) -> bool:
    return _has_named_messages(body) and "max_tokens" in body and "system" in body


def _has_contents(body: Json) -> bool:
    return isinstance(body.get("contents"), list | dict)


class PathRule(FrozenValue, frozen=True):
    """A path at which a format is spoken, and what the body has to hold for it."""

    path: re.Pattern[str]
    format: str
    holds: Callable[[Json], bool]


def _rule(path: str, format: str, holds: Callable[[Json], bool]) -> PathRule:
    return PathRule(re.compile(path), format, holds)


RULES = (
    _rule(r"/chat/completions/?$", "openai.chat", _has_messages),
    _rule(r"/responses/?$", "openai.responses", _has_input),
    _rule(r"/messages/?$", "anthropic.messages", _has_named_messages),
    _rule(r":(?:rawPredict|streamRawPredict)$", "anthropic.messages", _has_anthropic_version),
    _rule(r"/model/[^/]+/invoke(?:-with-response-stream)?$", "anthropic.messages", _has_anthropic_version),
    _rule(r":(?:rawPredict|streamRawPredict)$", "openai.chat", _has_messages),
    _rule(r":(?:generateContent|streamGenerateContent)$", "gemini", _has_contents),
    _rule(r"/api/chat/?$", "ollama.chat", _has_named_messages),
    _rule(r"/model/[^/]+/converse(?:-stream)?$", "bedrock.converse", _has_messages),
)
"""Formats by path; the first rule whose path and body fit holds."""

BY_BODY = (
    ("gemini", _has_contents),
    ("anthropic.messages", _has_system_beside_messages),
    ("openai.chat", _has_named_messages),
    ("openai.responses", _has_input),
)
"""Formats by body alone, for paths at hosts of which the user says that they serve models."""

_SERVES_MODELS = re.compile(
    r"/(?:embeddings|moderations|messages/count_tokens|responses/(?:input_tokens|compact))/?$"
    r"|:(?:countTokens|embedContent|batchEmbedContents|computeTokens)$|/model/[^/]+/count-tokens$|/api/embed$"
)
"""Paths that are no asks at any host: the words are those of model APIs."""

_AT_MODEL_HOSTS = re.compile(
    r"/(?:models|files|uploads|batches|vector_stores|containers|conversations|fine_tuning|traces|cachedContents"
    r"|messages/batches|rerank|tokenize|detokenize|health|version|key|credits|generation)(?:[/:]|$)"
    r"|/api/(?:tags|show|ps|version|pull|embeddings|event_logging(?:/\w+)*)$|:predict$|/responses/[^/]+(?:/\w+)?$"
)
"""Paths that are no asks at the host of a model; at another host they have nothing to do with models."""

_COUNTS_TOKENS = re.compile(r'"usage(?:Metadata)?"\s*:\s*\{[^{}]*"\w*token\w*"\s*:\s*\d', re.I)
_STREAMED = re.compile(
    r":stream(?:GenerateContent|RawPredict)$|/converse-stream$|/invoke-with-response-stream$"
)


def classify(request: Request, model_hosts: Collection[str] = ()) -> Classified:
    """Say what a request is: an ask and its format, auxiliary, unread, or nothing to do with models.

    ``model_hosts`` are hosts or base URLs of which the user says that models are served there.
    """
    try:
        address = urlsplit(request.uri)
    except ValueError:
        address = urlsplit("")
    # An encoded slash is part of a name, as in the ARNs of Bedrock, and stays encoded: else the name would
    # end there.
    path = unquote(re.sub("%2f", "%252f", address.path, flags=re.I))
    named = any(_is_below(address, host) for host in model_hosts)
    is_post = request.method.upper() == "POST"
    # An ask is always a POST: lists of models and stored replies are fetched by GET.
    if is_post:
        rules = [(rule.format, rule.holds) for rule in RULES if rule.path.search(path)]
        if named and not _SERVES_MODELS.search(path) and not _AT_MODEL_HOSTS.search(path):
            rules += BY_BODY
        # The body may be long: it is read only where the path may be that of an ask.
        body = _body(request) if rules else NOTHING
        if format := next((format for format, holds in rules if holds(body)), ""):
            return Classified("ask", format)
    if _SERVES_MODELS.search(path):
        return AUXILIARY
    if not named and not _is_known_model_host(address):
        return OTHER
    return UNREAD if is_post and not _AT_MODEL_HOSTS.search(path) else AUXILIARY


def may_ask_a_model(request: Request) -> bool:
    """Whether a request of no known format looks like one to a model: a model with a prompt or messages."""
    if request.method.upper() != "POST" or '"model"' not in text_of(request.body):
        return False
    body = _body(request)
    return isinstance(body.get("model"), str) and bool(body.get("prompt") or maps_in(body.get("messages")))


def may_be_of_a_model(response: Response) -> bool:
    """Whether a response of no known format counts tokens, as those of models do."""
    return _COUNTS_TOKENS.search(text_of(response.body)) is not None


def model_in_path(uri: str) -> str:
    """Give the model that a path names, or nothing; Azure has deployments there, Bedrock ARNs."""
    path = urlsplit(uri).path
    match = re.search(r"/(?:models|model|deployments)/([^/]+)", path)
    name = unquote(match[1]) if match else ""
    # Google's method stands behind the name, as in ``gemini-pro:generateContent``.
    return re.sub(r":[a-z]+[A-Z]\w*$", "", name)


def streamed_by_path(uri: str) -> bool:
    return _STREAMED.search(urlsplit(uri).path) is not None


def _body(request: Request) -> Json:
    try:
        return json_object(request.body)
    except UnreadableTraffic:
        return NOTHING
