"""A server that speaks MCP over its pipes, written with the standard library only, so that it starts fast.

It notes each start in the file that ``STARTS`` names, and each call there too. What its tools do is what
servers do at their best and at their worst.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
TOOLS = {
    "shout": ("Says it loudly.", TEXT),
    "add": ("Adds.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
    "count": ("Counts its calls.", NOTHING),
    "picture": ("Shows a picture.", NOTHING),
    "refuse": ("Says no in a result.", TEXT),
    "protest": ("Says no in the protocol.", NOTHING),
    "secret": ("Gives what it knows.", {"type": "object", "properties": {"token": {"type": "string"}}}),
    "die": ("Ends its server.", NOTHING),
    "hang": ("Starts a process that outlives it, and never answers.", NOTHING),
    "babble": ("Gives what is no result.", NOTHING),
    "files.read": ("Has a name that models cannot be told.", NOTHING),
}
if "NAMESAKE" in os.environ:
    TOOLS["files/read"] = ("Has a name that models are told as that of another.", NOTHING)
if "SCHEMAS" in os.environ:
    schemas = enumerate(json.loads(os.environ["SCHEMAS"]))
    TOOLS |= {f"typed{number}": ("Has this schema.", schema) for number, schema in schemas}
calls = 0


def note(line: str) -> None:
    """Write down what happens, for the test to see."""
    if "STARTS" in os.environ:
        with open(os.environ["STARTS"], "a", encoding="utf-8") as file:
            file.write(line + "\n")


def call(name: str, args: dict) -> dict:
    """Carry out a call."""
    if name == "shout":
        return text(args["text"].upper())
    if name == "add":
        total = args["a"] + args["b"]
        return {**text(f"the sum is {total}"), "structuredContent": {"sum": total, "carry": None}}
    if name == "count":
        return text(str(calls))
    if name == "picture":
        image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"x" * 10).decode()}
        link = {"type": "resource_link", "name": "more", "uri": "file:///more"}
        inner = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
        return {"content": [{"type": "text", "text": "look:"}, image, link, inner]}
    if name == "refuse":
        return {**text(f"there is no {args['text']}"), "isError": True}
    if name == "protest":
        raise LookupError("nobody may call this")
    if name == "secret":
        known = {name: os.environ.get(name) for name in ("TOKEN", "OTHER_API_KEY")}
        return {"content": [], "structuredContent": {**known, "folder": os.path.basename(os.getcwd())}}
    if name == "babble":
        return {"content": 7}
    if name == "die":
        print("one moment", "the database is gone", sep="\n", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "hang":
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
        print("still waiting", file=sys.stderr, flush=True)
        note(f"hangs {os.getpid()} {child.pid}")
        time.sleep(600)
    return text(name)


def text(words: str) -> dict:
    """Give a result of text."""
    return {"content": [{"type": "text", "text": words}]}


def result_of(request: dict) -> dict:
    """Give the result of a request; raises LookupError for one that cannot be answered."""
    global calls
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        note("start")
        version = params["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tiny", "version": "1"},
        }
    if method == "tools/list":
        names = list(TOOLS)
        page = names[5:] if params.get("cursor") else names[:5]
        more = {} if params.get("cursor") else {"nextCursor": "5"}
        listed = [
            {"name": name, "description": about, "inputSchema": schema}
            for name, (about, schema) in TOOLS.items()
            if name in page
        ]
        return {"tools": listed, **more}
    if method == "tools/call":
        calls += 1
        note(f"call {params['name']}")
        return call(params["name"], params.get("arguments") or {})
    if method == "ping":
        return {}
    raise LookupError(f"no method {method}")


if "FAILS" in os.environ:
    sys.exit("there is no licence")
print("this line is no message", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    try:
        answer = {"result": result_of(message)}
    except LookupError as why:
        answer = {"error": {"code": -32601, "message": str(why)}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
note("end")
