"""A stand-in for your agent: it reads the task, asks a model, and writes its answer."""

import json
import os
import sys
from urllib.request import Request, urlopen

task = json.load(sys.stdin)
messages = [
    {"role": "system", "content": "The museum is open from 10 to 18, never on Mondays."},
    {"role": "user", "content": task["input"]["content"]},
]
body = json.dumps({"model": task["model"] or "gpt-5-mini", "messages": messages}).encode()
url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
with urlopen(Request(url, body, {"content-type": "application/json"})) as response:
    reply = json.load(response)["choices"][0]["message"]
print(json.dumps({"type": "answer", "text": reply["content"]}))
