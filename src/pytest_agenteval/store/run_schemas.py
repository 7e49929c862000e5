"""JSON Schemas of everything in a run's folder, for those who read it without this package."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.records.evidence import UNDECIDED
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.record_files import VERSION
from pytest_agenteval.text.errors import CAUSES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
SCORE: Schema = {"description": "null: could not tell", **SHARE, "type": ["number", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
COUNT_OR_NULL: Schema = {**COUNT, "type": ["integer", "null"]}
FROM_ONE: Schema = {"type": "integer", "minimum": 1}
FLAG: Schema = {"type": "boolean"}
MAP: Schema = {"type": "object"}
DIGEST: Schema = {"description": "16 hex digits of the SHA-256", "type": "string"}
CAUSE: Schema = {"description": "why the trial is errored: docs/concepts/trials.md", "enum": [*CAUSES]}
KIND: Schema = {"enum": ["capability", "regression", "mixed"]}
FORMAT: Schema = {"const": VERSION}
CRC: Schema = {
    "description": "the last key: CRC-32, in hex digits, of the line's bytes before the comma in front of it",
    "type": "string",
    "pattern": "^[0-9a-f]{8}$",
}


def object_schema(required: Schema, optional: Schema, description: str = "") -> Schema:
    """Describe an object that has these keys and no others."""
    schema: Schema = {"type": "object", "properties": {**required, **optional}, "required": [*required]}
    # A field that is written but not described here fails a test.
    schema["additionalProperties"] = False
    return {"description": description, **schema} if description else schema


def list_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def map_schema(values: Schema) -> Schema:
    """Describe an object whose keys are names of the run, and whose values are all of one form."""
    return {"type": "object", "additionalProperties": values}


def published(title: str, schema: Schema) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


KEY = {"suite": TEXT, "task": TEXT, "agent": TEXT, "model": TEXT, "repetition": FROM_ONE}
USAGE = object_schema(
    {},
    dict.fromkeys(("in", "out", "cached", "reasoning", "asks", "attempts"), COUNT_OR_NULL)
    | {"cost_usd": {"type": ["number", "null"]}}
    | {"partial_tokens": {**COUNT, "description": "what is known of tokens that are null"}}
    | {"partial_cost_usd": {**NUMBER, "description": "what is known of a cost that is null"}},
    "what is 0 is left out; null: not known",
)
COUNTS = object_schema({}, {"hits": COUNT, "misses": COUNT, "recorded": COUNT})
DIGESTS = (
    "input", "fixture", "prompt", "settings", "tools", "ruler", "model", "code", "offered",
    "tool_code", "acted_out",
)  # fmt: skip
GRADER_DIGESTS: Schema = {
    "description": "for each grade's label: the grader's version, a colon, 12 hex digits of a SHA-256",
    "type": "object",
    "additionalProperties": {"type": "string", "pattern": ":[0-9a-f]{12}$"},
}
FILES_OF = "for the label of each grader that is somebody's own: of its source files"
OWN_CODE: Schema = {"description": FILES_OF, **map_schema(TEXT)}
SENT_PARTS = "of what models were sent: `system prompt`, `first message`, `list of tools`"
SENT: Schema = {"description": SENT_PARTS, **map_schema(TEXT)}
ALL_DIGESTS = object_schema(
    {}, dict.fromkeys(DIGESTS, DIGEST) | {"graders": GRADER_DIGESTS, "grader_code": OWN_CODE, "sent": SENT}
)
TURNS = "how long replies of models took; fewer than usage.asks: others are unknown"
FAILED = "claims of the first 8 checks that failed, each cut at 120 characters, where the score is too low"
GRADE = object_schema(
    {"grader": TEXT, "score": SCORE},
    {"passed": FLAG, "threshold": {**SHARE, "default": 1}, "weight": {**NUMBER, "default": 1}}
    | {"required": FLAG, "rationale": {**TEXT, "description": "cut at 160 characters"}}
    | {"undecided": {"enum": [*UNDECIDED, *CAUSES], "description": "why no score: docs/concepts/trials.md"}}
    | {"failed": {**list_schema(TEXT), "description": FAILED}}
    | {"unclamped": {**NUMBER, "description": "what was measured, where the score is only the nearer end"}},
)
STARTED = object_schema(
    {"v": FORMAT, "kind": {"const": "started"}, "attempt": FROM_ONE, **KEY},
    {"variant": TEXT, "at": TEXT, "crc": CRC},
    "a trial was begun",
)
NOT_RUN = object_schema(
    {"v": FORMAT, "kind": {"const": "not_run"}, "attempt": FROM_ONE, **KEY}
    | {"cause": {**TEXT, "description": "in one word"}, "reason": TEXT},
    {"variant": TEXT, "crc": CRC},
    "a trial was held back: it did not begin",
)
FINISHED = object_schema(
    {"v": FORMAT, "kind": {"const": "finished"}, "attempt": FROM_ONE, **KEY}
    | {"ending": {"enum": ["passed", "missed", "failed", "errored"]}, "score": SCORE, "task_kind": KIND}
    | {"grades": list_schema(GRADE)}
    | {
        "transcript": {
            **list_schema(COUNT),
            "minItems": 2,
            "maxItems": 2,
            "description": "first byte, length",
        }
    },
    {"variant": TEXT, "full": FLAG, "limit": TEXT, "cause": CAUSE, "bucket": TEXT, "tags": list_schema(TEXT)}
    | {
        "file": {**TEXT, "description": "the task's file, from pytest's rootdir"},
        "label": {"enum": ["positive", "negative"], "description": "whether the agent should act"},
        "acted": {**FLAG, "description": "whether it did, where there is a label"},
        "split": {"enum": ["dev", "held_out"], "description": "of the task; none in older journals"},
        "doubtful_events": map_schema(COUNT),
        "own_models": {**list_schema(TEXT), "description": "models that the agent called by itself"},
        "called_tools": {**list_schema(TEXT), "description": "tools that the agent called, 50 at most"},
        "origin": object_schema(
            {"run": TEXT, "attempt": FROM_ONE},
            {"regraded": FLAG},
            "where the trial was carried out, where not here; run is empty for another attempt of this run",
        ),
    }
    | {"message": {**TEXT, "description": "cut at 300 characters"}, "started_at": TEXT, "seconds": NUMBER}
    | {"uncharged_seconds": {**NUMBER, "description": "what of the seconds the trial's limit does not count"}}
    | {"wall_seconds": {**NUMBER, "description": "from started_at to the end, with set-up and graders"}}
    | {"turn_seconds": {**list_schema(NUMBER), "description": TURNS}}
    | {"traceback": {**TEXT, "description": "its last lines, 600 characters at most"}}
    | {"digests": ALL_DIGESTS}
    | {"usage": USAGE, "judging": USAGE, "simulating": USAGE}
    | {"paid": {**USAGE, "description": "what no recording gave, where that is not all that was used"}}
    | {"tapes": object_schema({}, {"tools": COUNTS, "chats": COUNTS}), "crc": CRC},
    "a trial finished; its transcript is in the file transcripts-<process>.jsonl beside this one",
)
JOURNAL_LINE = published("a line of journal-<process>.jsonl", {"anyOf": [STARTED, FINISHED, NOT_RUN]})

LONG = object_schema({"d": DIGEST}, {}, "a text of more than 1,024 characters: in texts-<process>.jsonl")
TEXT_OR_LONG: Schema = {"anyOf": [TEXT, LONG]}
CALL = object_schema(
    {"id": TEXT, "turn": COUNT, "index": COUNT, "tool": TEXT},
    {"args": MAP, "raw_args": TEXT, "result": True, "result_text": DIGEST, "started": NUMBER, "ended": NUMBER}
    | {"error": object_schema({"type": TEXT, "message": TEXT}, {})}
    | {"by": {"enum": ["agent", "seed", "provider"]}, "tape": {"enum": ["hit", "miss", "live", "none"]}},
)
MESSAGE = object_schema(
    {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": TEXT_OR_LONG},
    {"calls": list_schema(CALL), "turn": COUNT, "seeded": FLAG, "phase": FROM_ONE, "call_id": TEXT},
)
ASK = object_schema(
    {"turn": COUNT, "started": NUMBER, "ended": NUMBER},
    {"usage": USAGE, "finish": TEXT, "first_token_s": NUMBER, "reasoning": TEXT, "model": TEXT},
)
EVENT = object_schema({"at": NUMBER, "kind": TEXT, "text": TEXT}, {"details": MAP})
NO_TEXT = ["", "binary", "too large", "link", "unreadable", "too deep", "too many"]
WHY = {"description": "why there is no text", "enum": NO_TEXT}
FILE = object_schema({"d": DIGEST, "size": COUNT}, {"why": WHY})
FILE_OR_NULL: Schema = {"anyOf": [FILE, {"type": "null"}]}
CHECK = object_schema({"claim": TEXT, "passed": FLAG}, {"expected": TEXT, "found": TEXT})
REST = object_schema(
    {},
    {"details": MAP, "rationale": {**TEXT, "description": "in full, where the journal line cut it"}}
    | {"checks": list_schema(CHECK)},
)
TRANSCRIPT_LINE = published(
    "a line of transcripts-<process>.jsonl",
    object_schema(
        {"v": FORMAT, "trial": {"description": ", ".join([*TrialKey._fields, "attempt"]), "type": "array"}},
        {"messages": list_schema(MESSAGE), "calls": list_schema(CALL)}
        | {"asks": list_schema(ASK), "events": list_schema(EVENT)}
        | {"tools": {**LONG, "description": "the tools that a model was offered: JSON, beside other texts"}}
        | {"answer": TEXT_OR_LONG, "state": MAP, "before": map_schema(FILE)}
        | {"after": {"description": "what differs from before; null: deleted", **map_schema(FILE_OR_NULL)}}
        | {"grades": {**list_schema(REST), "description": "in the order of the journal line's grades"}}
        | {"message": TEXT, "traceback": TEXT, "output": TEXT, "log": TEXT, "workspace": TEXT, "crc": CRC},
    ),
)
TEXT_LINE = published(
    "a line of texts-<process>.jsonl", object_schema({"d": DIGEST, "t": TEXT}, {"crc": CRC})
)

MODEL = object_schema({"name": TEXT, "id": TEXT}, {"offline": FLAG, "note": TEXT, "via": TEXT})
SUITE = object_schema({"name": TEXT}, {"kind": KIND, "agent": TEXT, "threshold": SHARE})
LEVELS = object_schema({"suite": SHARE, "buckets": SHARE}, {}, "confidence levels of verdicts")
RULE = object_schema(
    {"low": FROM_ONE, "high": FROM_ONE, "first_look": LEVELS, "second_look": LEVELS}
    | {"futile": SHARE, "promising": SHARE, "fewest_tasks": COUNT}
    | {"most_trials": {"type": ["integer", "null"], "minimum": 1}},
    {},
    "how it is decided, between low and high, how often tasks are repeated",
)
LOOKS = "of each suite whose held-out tasks are tried: how often, this run counted"
HELD_OUT_LOOKS = {**map_schema(FROM_ONE), "description": LOOKS}
PRICES = object_schema(
    {"table": TEXT, "own": map_schema(TEXT)},
    {},
    "where prices come from: a package with its version; models whose price the user set, with its date",
)
PLANNED_GROUP = object_schema(
    {"suite": TEXT, "model": TEXT, "variant": TEXT, "bucket": TEXT}
    | {"tasks": COUNT, "trials": COUNT, "repetitions": FROM_ONE},
    {},
)
SHARDS = object_schema(
    {"numbers": list_schema(FROM_ONE), "total": FROM_ONE, "planned": list_schema(PLANNED_GROUP)}
    | {"tasks": {**TEXT, "description": "a digest of what the tasks of all shards ask"}}
    | {"baseline": TEXT},
    {},
    "which parts of a run this is, and what all parts have planned together",
)
HEADER = published(
    "run.json",
    object_schema(
        {"v": FORMAT, "name": TEXT, "started_at": TEXT},
        {"command": list_schema(TEXT), "models": list_schema(MODEL), "judges": list_schema(MODEL)}
        | {"self_judge": FLAG, "variants": list_schema(TEXT)}
        | {"suites": list_schema(SUITE), "regraded": list_schema(TEXT)}
        | {"seed": {"type": "integer"}, "repetitions": {"type": ["integer", "null"], "minimum": 1}}
        | {"package": TEXT, "pytest": TEXT, "ended_at": TEXT, "exit_status": {"type": ["integer", "null"]}}
        | {"record": TEXT, "record_chat": TEXT, "repetition_rule": RULE}
        | {"held_out_looks": HELD_OUT_LOOKS, "prices": PRICES, "shards": SHARDS, "user": TEXT}
        | {
            "reused": {**list_schema(TEXT), "description": "runs whose finished trials were taken over"},
            "died": list_schema(TEXT),
            "merged_at": {**TEXT, "description": "when the run was made of others"},
            "resumed": list_schema(object_schema({"at": TEXT}, {"command": list_schema(TEXT)})),
            "sessions": {
                **list_schema(object_schema({"started_at": TEXT, "ended_at": TEXT}, {})),
                "description": "pytests before the one that resumed the run last, or those of merged runs",
            },
        },
    ),
)
PLANNED = published("planned.json", object_schema({"v": FORMAT, "groups": list_schema(PLANNED_GROUP)}, {}))
NOTE_LINE = published(
    "a line of notes.jsonl",
    object_schema(
        {"v": FORMAT, **KEY, "attempt": FROM_ONE},
        {"variant": TEXT}
        | {"looked_at": {**TEXT, "description": "when a person last looked at the attempt, UTC; or empty"}}
        | {"comment": TEXT, "crc": CRC},
        "a person's note on a trial; the last line of a trial counts, and one with neither takes it away",
    ),
)
SCHEMAS = {
    "journal": JOURNAL_LINE,
    "transcript": TRANSCRIPT_LINE,
    "text": TEXT_LINE,
    "run": HEADER,
    "planned": PLANNED,
    "note": NOTE_LINE,
}
