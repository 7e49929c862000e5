"""Tool calls as models write them, before any provider has read them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.replies import harmony_messages, split_thoughts
from pytest_agenteval.records.tool_spec import DEEPEST, ToolSpec

NAME_KEYS = ("name", "tool_name", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args")

_SEPARATORS = re.compile(r"[\s,;]*")
_NAME_IN_JSON = re.compile(r'"(?:name|tool_name|function)"\s*:\s*"([^"\\\n]+)"')
_ARGUMENTS_IN_JSON = re.compile(r'"(?:arguments|parameters|args)"\s*:\s*')
_decoder = json.JSONDecoder()


class WrittenCall(NamedTuple):
    """A call as it was written: the tool's name, and the text of its arguments, JSON if it is well-formed."""

    tool: str
    arguments: str


class CallsInText(NamedTuple):
    """The calls of a reply, in the order in which they are written, and the rest of the text."""

    calls: tuple[WrittenCall, ...]
    text: str


def json_text(value: object) -> str:
    """Write a value as JSON; the reader of the arguments reports what JSON lacks, such as NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parameters_of(tools: Collection[ToolSpec], name: str) -> Mapping[str, Any]:
    """Give the schemas of a tool's parameters by name; empty for a tool that is not offered."""
    schemas = (tool.parameters.get("properties") for tool in tools if tool.name == name)
    properties = next(schemas, None)
    return properties if isinstance(properties, Mapping) else {}


def json_calls(text: str) -> tuple[WrittenCall, ...]:
    """Read calls from JSON: one object, several in a row, or a list of them; empty for anything else.

    If the JSON is broken behind the tool's name, the arguments are the text as it is.
    """
    try:
        values = list(_json_values(text))
    except (ValueError, RecursionError):
        # The object is cut off or broken in its arguments; its name can still be read.
        name, arguments = _NAME_IN_JSON.search(text), _ARGUMENTS_IN_JSON.search(text)
        rest = text[arguments.end() :] if arguments else text
        return (WrittenCall(name[1], rest.strip()),) if name else ()
    objects = [value for one in values for value in (one if isinstance(one, list) else [one])]
    calls = [_call_of_json(value) for value in objects]
    return tuple(call for call in calls if call) if all(calls) else ()


def _json_values(text: str) -> Iterator[Any]:
    """Give the JSON values of a text in their order; raises ValueError for anything else."""
    # Small models may repeat a bracket for ever. Reading has to end, and the text is not lost.
    if text.count("{") + text.count("[") > 100 * DEEPEST:
        raise ValueError("too many brackets")
    at = _match_end(_SEPARATORS, text, 0)
    while at < len(text):
        value, at = _decoder.raw_decode(text, at)
        yield value
        at = _match_end(_SEPARATORS, text, at)


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _call_of_json(value: Any) -> WrittenCall | None:
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):  # as OpenAI writes it
        return _call_of_json(inner)
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), "")
    if not name:
        return None
    arguments: Any = next((value[key] for key in ARGUMENT_KEYS if key in value), {})
    return WrittenCall(name, arguments if isinstance(arguments, str) else json_text(arguments or {}))


CallsOfMatch: TypeAlias = Callable[[re.Match[str]], tuple[WrittenCall, ...]]

# Each body ends at its closing mark, or where the model was cut off.
# In this order: Hermes, Qwen and Granite 4; Granite 3 and Phi 4 mini; Phi 4 if instructed; Nemotron.
JSON_BODIES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"<tool_call>(?P<body>.*?)(?:</tool_call>|\Z)",
        r"<\|tool_call\|>(?P<body>.*?)(?:<\|/tool_call\|>|<\|tool_call\|>(?=\s*\Z)|\Z)",
        r"<tool_calls>(?P<body>.*?)(?:</tool_calls>|\Z)",
        r"<TOOLCALL>(?P<body>.*?)(?:</TOOLCALL>|\Z)",
        r"functools(?P<body>\[.*)\Z",
    )
)

MISTRAL = re.compile(r"\[TOOL_CALLS\](?P<body>.*?)(?=\[TOOL_CALLS\]|\Z)", re.DOTALL)
_MISTRAL_NAMED = re.compile(
    r"\s*(?P<name>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?\s*(?:\[ARGS\])?(?P<arguments>\s*\{.*)", re.DOTALL
)
DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?P<body>.*?)(?:<｜tool▁call▁end｜>|(?=<｜tool▁call▁begin｜>)|\Z)", re.DOTALL
)
_DEEPSEEK_AROUND = re.compile(r"<｜tool▁calls▁(?:begin|end)｜>|<｜tool▁outputs?▁\w+｜>")
_FENCED_JSON = re.compile(r"```(?:json)?\s*(.*?)\s*(?:```|\Z)", re.DOTALL)
PYTHON_TAG = "<|python_tag|>"


def hermes_like(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read JSON between a pair of marks."""
    for pattern in JSON_BODIES:
        if found := collect_calls(pattern, text, lambda match: json_calls(match["body"])):
            return found
    return None


def mistral(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``[TOOL_CALLS]`` with a list behind it, or a name and its arguments."""

    def calls(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        named = _MISTRAL_NAMED.fullmatch(match["body"])
        if named:
            return (WrittenCall(named["name"], named["arguments"].strip()),)
        return json_calls(match["body"])

    return collect_calls(MISTRAL, text, calls)


def deepseek(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read DeepSeek's marks: V3 and R1 write ``function``, a name and fenced JSON, V3.1 name and JSON."""

    def calls(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        first, mark, rest = match["body"].partition("<｜tool▁sep｜>")
        if not mark:
            return ()
        if first.strip() == "function":
            name, _, arguments = rest.partition("\n")
            fenced = _FENCED_JSON.search(arguments)
            return (WrittenCall(name.strip(), (fenced[1] if fenced else arguments).strip()),)
        return (WrittenCall(first.strip(), rest.strip()),)

    return collect_calls(DEEPSEEK, _DEEPSEEK_AROUND.sub("", text), calls)


def llama(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read JSON behind ``<|python_tag|>``."""
    before, _, body = text.partition(PYTHON_TAG)
    calls = json_calls(body.replace(PYTHON_TAG, ";"))
    return CallsInText(calls, before) if calls else None


def collect_calls(pattern: re.Pattern[str], text: str, calls_of: CallsOfMatch) -> CallsInText | None:
    """Take the calls out of a text, None without marks; a marked text that is no call stays."""
    if not pattern.search(text):
        return None
    calls: list[WrittenCall] = []

    def take(match: re.Match[str]) -> str:
        written = calls_of(match)
        calls.extend(written)
        return "" if written else match[0]

    rest = pattern.sub(take, text)
    return CallsInText(tuple(calls), rest)


QWEN_CODER = re.compile(
    r"(?:<tool_call>\s*)?<function=(?P<name>[\w.-]+)>(?P<body>.*?)(?P<end></function>|(?=<function=|</tool_call>)|\Z)"
    r"(?:\s*</tool_call>)?",
    re.DOTALL,
)
_QWEN_PARAMETER = re.compile(r"<parameter=([^>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
GLM = re.compile(
    r"<tool_call>\s*(?P<name>[\w.-]+)\s*(?P<body>(?:<arg_key>.*?)?)(?P<end></tool_call>|(?=<tool_call>)|\Z)",
    re.DOTALL,
)
_GLM_PARAMETER = re.compile(
    r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|(?=<arg_key>)|\Z)", re.DOTALL
)
GEMMA = re.compile(
    r"(?:<start_function_call>|<\|tool_call>)\s*call:(?P<name>[\w.-]+)(?P<body>\{.*?)"
    r"(?:<end_function_call>|<tool_call\|>|(?=<start_function_call>|<\|tool_call>)|\Z)",
    re.DOTALL,
)
_GEMMA_QUOTE = re.compile(r'<escape>|<\|"\|>')
_CLOSING_TAGS = ("</parameter>", "</arg_value>")
_GEMMA_KEY = re.compile(r"([{,]\s*)([A-Za-z_][\w.-]*)\s*:")


def qwen_coder(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``<function=NAME><parameter=KEY>…</parameter></function>``, in ``<tool_call>`` or without."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        pairs = [
            (key, value.removeprefix("\n").removesuffix("\n"))
            for key, value in _QWEN_PARAMETER.findall(match["body"])
        ]
        return (_typed_call(match, pairs, tools),)

    if "<parameter=" not in text and not re.search(r"<function=[\w.-]+>\s*(?:</function>|\Z)", text):
        return None
    return collect_calls(QWEN_CODER, text, call)


def glm(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``<tool_call>NAME<arg_key>KEY</arg_key><arg_value>…</arg_value></tool_call>``."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        pairs = [(key.strip(), value) for key, value in _GLM_PARAMETER.findall(match["body"])]
        return (_typed_call(match, pairs, tools),)

    return collect_calls(GLM, text, call) if "<arg_key>" in text else None


def gemma(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``call:NAME{key:<escape>text<escape>,n:3}``: FunctionGemma, and Gemma 4 with its own quotes."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        body = match["body"].strip()
        parts = _GEMMA_QUOTE.split(body)
        texts = [
            json_text(part) if place % 2 else _GEMMA_KEY.sub(r'\1"\2":', part)
            for place, part in enumerate(parts)
        ]
        return (WrittenCall(match["name"], "".join(texts)),)

    return collect_calls(GEMMA, text, call)


def _typed_call(
    match: re.Match[str], pairs: Iterable[tuple[str, str]], tools: Collection[ToolSpec]
) -> WrittenCall:
    """Give the call; a call that was cut off has its text unchanged as arguments."""
    name, body = match["name"], match["body"].strip()
    # Half a value must not become a value.
    if not match["end"] and not body.endswith(_CLOSING_TAGS):
        return WrittenCall(name, body)
    schemas = parameters_of(tools, name)
    return WrittenCall(name, json_text({key: _typed_value(text, schemas.get(key)) for key, text in pairs}))


def _typed_value(text: str, schema: Any) -> Any:
    types = schema.get("type") if isinstance(schema, Mapping) else None
    wanted = {types} if isinstance(types, str) else set(types or ())
    plain = text.strip()
    if (not wanted or "string" in wanted) and not ("null" in wanted and plain == "null"):
        return text
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(plain, plain))
    except (ValueError, RecursionError):
        return text


MOST_CODE = 20_000
FENCED_CALLS = re.compile(
    r"```(?P<kind>tool_code|tool_call|json|python)[^\S\n]*\n(?P<body>.*?)(?:```|\Z)", re.DOTALL
)


def bare_json(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read a reply that is JSON alone, as Llama 3 writes its calls."""
    if not text.strip().startswith(("{", "[")):
        return None
    return _only_offered(json_calls(text), tools, "")


def bare_python(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``[weather(city="Oslo"), now()]``, as Llama 3.2, Llama 4 and Gemma 3 write their calls."""
    plain = text.strip().removeprefix("<|python_start|>").removesuffix("<|python_end|>").strip()
    return _only_offered(tuple(python_calls(plain, tools)), tools, "") if plain.startswith("[") else None


def fenced_calls(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read a fenced block of calls, as Gemma 2 and 3 write them: Python in ``tool_code``, or JSON."""
    match = FENCED_CALLS.search(text)
    if match is None:
        return None
    code = match["kind"] in ("tool_code", "python")
    calls = tuple(python_calls(match["body"], tools)) if code else json_calls(match["body"])
    return _only_offered(calls, tools, text[: match.start()] + text[match.end() :])


def _only_offered(
    calls: tuple[WrittenCall, ...], tools: Collection[ToolSpec], rest: str
) -> CallsInText | None:
    """Give the calls if all of them name offered tools."""
    # Without marks, JSON or Python that names no offered tool is an answer to the user.
    names = {tool.name for tool in tools}
    return CallsInText(calls, rest) if calls and all(call.tool in names for call in calls) else None


def python_calls(code: str, tools: Collection[ToolSpec]) -> Iterator[WrittenCall]:
    """Read calls with plain values from Python; empty if the code holds anything else."""
    if len(code) > MOST_CODE:
        return
    try:
        calls = []
        for statement in ast.parse(code.strip()).body:
            if not isinstance(statement, ast.Expr | ast.Assign):
                return
            node = statement.value
            elements = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
            calls += [_python_call(element, tools) for element in elements]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return
    yield from calls


def _python_call(node: ast.expr, tools: Collection[ToolSpec]) -> WrittenCall:
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1:
        return _python_call(node.args[0], tools)
    module, _, plain = name.rpartition(".")
    if module == "default_api":
        name = plain
    keys = list(parameters_of(tools, name))
    if len(node.args) > len(keys):
        raise ValueError("more values than the tool has parameters")
    values = dict(zip(keys, node.args, strict=False))
    values |= {keyword.arg or "": keyword.value for keyword in node.keywords}
    return WrittenCall(name, json_text({key: ast.literal_eval(value) for key, value in values.items()}))


CallReader: TypeAlias = Callable[[str, Collection[ToolSpec]], CallsInText | None]

# Readers of the forms of calls, those with the clearest marks first. The first that finds a call decides.
CALL_FORMATS: Sequence[CallReader] = (
    deepseek,
    gemma,
    qwen_coder,
    glm,
    mistral,
    hermes_like,
    llama,
    fenced_calls,
    bare_json,
    bare_python,
)


class WrittenReply(FrozenValue, frozen=True):
    """A model's text, thoughts and calls."""

    text: str
    reasoning: str = ""
    calls: tuple[WrittenCall, ...] = ()


# Ends of a prompt with which the model's reply already begins.
REPLY_OPENINGS = ("<think>", "[THINK]", "<seed:think>", "<|channel>thought", "◁think▷")


def opening_of(prompt: str) -> str:
    """Give the beginning of the reply that a prompt ends with; empty for none."""
    end = prompt[-40:].rstrip()
    return next((opening for opening in REPLY_OPENINGS if end.endswith(opening)), "")


def read_reply_text(text: str, tools: Collection[ToolSpec]) -> WrittenReply:
    """Read a whole reply, with its special tokens; calls only where ``tools`` are offered."""
    if harmony := harmony_messages(text) if "<|channel|>" in text else []:
        calls = [
            WrittenCall(it.recipient, it.body.strip() or "{}") for it in harmony if it.recipient and tools
        ]
        reply = split_thoughts("".join(it.written for it in harmony if not it.recipient))
        return WrittenReply(reply.text.strip(), reply.reasoning, tuple(calls))
    rest, reasoning = split_thoughts(text)
    for read in CALL_FORMATS if tools else ():
        written = read(rest, tools)
        if written is not None and (written.calls or written.text != rest):
            return WrittenReply(written.text.strip(), reasoning, written.calls)
    return WrittenReply(rest.strip(), reasoning)
