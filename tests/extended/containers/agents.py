"""Agents for containers, most of them hostile: a few lines each, with what they share before them."""

SHARED = """
import json, os, signal, socket, subprocess, sys, time, urllib.request
task = json.loads(sys.stdin.readline())
hints = task["settings"]
def answer(*found):
    print(json.dumps({"type": "answer", "text": f"found: {list(found)}"}), flush=True)
def post(url, body):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
def ask():
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    return post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)["choices"][0]["message"]["content"]
def refusal(act, *args):
    try:
        act(*args)
    except OSError as refused:
        return refused.strerror
"""

GOOD = {
    "python": """
call = {"name": "knots", "arguments": {"kmh": 50}}
request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
result = post(os.environ["AGENTEVAL_MCP_URL"], request)
text = ask() + " at " + result["result"]["content"][0]["text"]
open("report.md", "w").write(text)
print(sorted(os.environ))
answer(text)
""",
    "node": """
import { readFileSync, writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
readFileSync(0);
const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
async function post(url, body) {
  return (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).json();
}
const params = { name: "knots", arguments: { kmh: 50 } };
const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
const called = await post(process.env.AGENTEVAL_MCP_URL, request);
const question = { model: "m", messages: [{ role: "user", content: "hi" }] };
const reply = await post(`${process.env.OPENAI_BASE_URL}/chat/completions`, question);
const text = `${reply.choices[0].message.content} at ${called.result.content[0].text}`;
writeFileSync("report.md", text);
console.log(Object.keys(process.env).sort(), userInfo().username, hostname());
console.log(JSON.stringify({ type: "answer", text }));
""",
}
"""Ask the model, call a tool over MCP, and write a file."""

HOSTILE = {
    # Every file that can be read, and every environment and command line, is searched for the canary.
    "reads": """
found = []
processes = [f"/proc/{pid}" for pid in os.listdir("/proc") if pid.isdigit()]
places = [f"{process}/{name}" for process in processes for name in ("environ", "cmdline")]
for folder, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys", "/dev")]
    places += [os.path.join(folder, name) for name in names]
for place in places:
    try:
        found += [place] if b"CANARY" + b"-7f3a" in open(place, "rb").read(1 << 20) else []
    except OSError:
        pass
answer(*found)
""",
    "sends": """
reached = []
for host, port in [("127.0.0.1", hints["port"]), (hints["address"], hints["port"]), ("1.1.1.1", 443),
                   ("169.254.169.254", 80), ("example.com", 80), ("host.docker.internal", 80)]:
    try:
        socket.create_connection((host, port), 2)
        reached.append(host)
    except OSError:
        pass
    try:
        socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", (host, 53))
        reached += [] if host == "127.0.0.1" else ["udp " + host]
    except OSError:
        pass
answer(*reached)
""",
    "forks": """
children = 0
try:
    while children < 5000:
        if not os.fork():
            time.sleep(600)
        children += 1
except OSError:
    pass
answer(children < 64, ask())
""",
    "writes": """
places = ["/x", "/etc/x", "/usr/x", "/var/tmp/x", "/suite/agent.py", "/proc/sys/kernel/hostname"]
found = [place for place in places if not refusal(open, place, "w")]
more = [refusal(open(f"/tmp/{n}", "wb").write, b"x" * (63 << 20)) for n in range(2)]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
large = open("large", "wb")
answer(*found, more[-1], refusal(large.truncate, 65 << 20))
""",
    "fills": """
for n in range(10000):
    open(f"file-{n}", "wb").write(b"x" * (1 << 20))
    time.sleep(0.01)
answer("all written")
""",
    "eats": """
answer("before")
data = [b"x" * (1 << 20) for n in range(4000)]
answer("all held")
""",
    "child_eats": """
code = "data = [b'x' * (1 << 20) for n in range(4000)]"
answer(subprocess.run([sys.executable, "-c", code]).returncode)
""",
    "stays": """
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        while True:
            open("beat", "w").write(str(time.time()))
            time.sleep(0.1)
    os._exit(0)
time.sleep(1)
answer()
""",
    "loud": """
os.write(1, json.dumps({"type": "answer", "text": "found: []"}).encode() + b"\\n")
while True:
    os.write(1, b"x" * 65536)
""",
    "kills": "os.kill(-1, signal.SIGKILL)\ntime.sleep(600)\n",
    "stops": """
answer()
time.sleep(1)
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        os.kill(int(pid), signal.SIGSTOP)
time.sleep(600)
""",
    # Writes frames of its own where the runner's go, as the runner's user may.
    "forges": """
import struct
runner = os.getppid()
with open(f"/proc/{runner}/fd/1", "wb", 0) as out:
    for number in range(1000, 3000):
        data = b"GET / HTTP/1.1\\r\\n\\r\\n"
        out.write(struct.pack(">II", number, len(data)) + data)
    out.write(struct.pack(">II", 0, 5) + b"{bad}")
time.sleep(600)
""",
    "links": """
os.symlink(hints["secret"], "/agenteval/out/trajectory.json")
os.symlink(hints["secret"], "stolen.md")
answer()
""",
}
