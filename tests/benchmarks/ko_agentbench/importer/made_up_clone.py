"""A tiny clone in the benchmark's layout, with texts of our own, and the command that imports it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import cache_key
from pytest_agenteval.cli.init import import_, import_arguments

MODEL = "maker/small-model"
STAMP = "20260301_090000"
QUESTION = "한빛역 근처 도서관 하나만 찾아줘."
PLACE = {"keyword": "한빛역 도서관", "total_count": 1, "places": [{"name": "한빛도서관", "longitude": 127.5}]}


def agenteval_import(*arguments: str | Path) -> int:
    """Do what ``agenteval import`` does with these arguments."""
    parser = argparse.ArgumentParser()
    import_arguments(parser)
    return import_(parser.parse_args([str(one) for one in arguments]))


def dump(path: Path, value: Any) -> Path:
    """Write JSON, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def task(id: str, **more: Any) -> dict[str, Any]:
    """Give a task of the benchmark: one search for a place."""
    golden = [{"tool": "PlaceSearch_kakao", "args": {"keyword": "한빛역 도서관"}}]
    fields = [{"tool": "PlaceSearch_kakao", "fields": ["places[0].name"]}]
    plain = {"task_id": id, "instruction": QUESTION, "task_level": int(id[1]), "task_category": "Made Up"}
    return {**plain, "golden_action": golden, "golden_fields": fields, **more}


def cached(clone: Path, tool: str, args: dict[str, Any], data: Any, at: str, key: str = "") -> Path:
    """Put an answer into the clone's cache, under today's key or another one."""
    settled, todays = cache_key(tool, args)
    key = key or todays
    entry = {"key": key, "tool": tool, "created_at": at, "input_params": settled, "raw_args": args}
    return dump(clone / "bench" / "cache" / tool / key[:2] / f"{key}.json", {**entry, "data": data})


def result(id: str, **more: Any) -> dict[str, Any]:
    """Give a logged result: one call that worked, then an answer."""
    call = {"step": 1, "tool_name": "PlaceSearch_kakao", "arguments": {"keyword": "도서관"}, "success": True}
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": ""},
        {"role": "tool", "tool_call_id": "abc", "content": PLACE},
        {"role": "assistant", "content": "한빛도서관입니다."},
    ]
    golden = [{"tool": "PlaceSearch_kakao", "args": {"keyword": "한빛역 도서관"}}]
    about = {"task_id": id, "instruction": QUESTION, "level": int(id[1]), "category": "Made Up"}
    took = {
        "success": True,
        "execution_time": 3.0,
        "steps_taken": 2,
        "error": None,
        "repetition_results": [True],
    }
    stats = {"average": 1.5, "min": 1.0, "max": 2.0, "count": 2}
    tokens = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
    calls = {"tool_calls": [{**call, "error": None, "result": PLACE}], "golden_action": golden}
    ends = {"final_response": "한빛도서관입니다.", "conversation_log": {"messages": messages}}
    return {**about, **took, "ttft_stats": stats, "token_usage": tokens, **calls, **ends, **more}


def log(clone: Path, level: str, *results: dict[str, Any], model: str = MODEL, stamp: str = STAMP) -> Path:
    """Put results into the clone's logs."""
    about = {"timestamp": "2026-03-01T09:05:00", "model": model, "level": level}
    folder = clone / "logs" / "benchmark_results" / "by_model" / model.replace("/", "_") / stamp
    return dump(folder / f"{level}.json", {"metadata": about, "results": list(results)})


def small_clone(folder: Path) -> Path:
    """Make a clone of one task, one cached answer and one logged result."""
    dump(folder / "bench" / "tasks" / "L1.json", [task("L1-001")])
    cached(folder, "PlaceSearch_kakao", {"keyword": "한빛역 도서관"}, PLACE, "2026-01-01T00:00:00")
    log(folder, "L1", result("L1-001"))
    return folder
