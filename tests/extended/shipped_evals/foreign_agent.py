"""An agent that is none of ours: it does what a task's reference says, with its own hands, on files alone.

It imports nothing of the plugin, and runs as a program too: ``foreign_agent.py FOLDER``, the rest on stdin.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any


def act(root: Path, turns: list[dict[str, Any]]) -> str:
    """Do in a folder what the calls of a reference solution say, and tell nothing of an end state."""
    for turn in turns:
        for call in turn.get("calls", ()):
            doing = DOING.get(call["tool"])
            if doing is not None:  # what only looks, and what skips, leaves no trace on a disk
                doing(root, call["args"])
    return "I have looked after your entry."


def _save(root: Path, args: dict[str, Any]) -> None:
    old, path = _card(root, args["fact_id"])
    tags = [tag["name"] for tag in args.get("tags", ())]
    card = {"title": args["title"], "ui_configs": args["ui_configs"], "tags": tags, "status": "completed"}
    _dump(path, {**old, "fact_id": args["fact_id"], **card})


def _tell(root: Path, args: dict[str, Any]) -> None:
    old, path = _card(root, args["fact_id"])
    related = [{"id": id} for id in args.get("related_fact_ids", ())]
    _dump(path, {**old, "insight": {"text": args["insight_text"], "related_facts": related}})


def _card(root: Path, fact: str) -> tuple[dict[str, Any], Path]:
    """Give what the card says in lines that are no list, and its file; JSON is YAML too."""
    day, _, entry = fact.partition(".md#")
    path = root / "Cards" / f"{day}_{entry}.yaml"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = (line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return {key: value.strip('"') for key, value in lines if value != "[]"}, path


def _dump(path: Path, card: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(card, ensure_ascii=False), encoding="utf-8")


def _write(root: Path, args: dict[str, Any]) -> None:
    path = _inside(root, args["file_path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(args["content"], encoding="utf-8")


def _edit(root: Path, args: dict[str, Any]) -> None:
    path = _inside(root, args["file_path"])
    was = path.read_text(encoding="utf-8")
    path.write_text(was.replace(args["old_string"], args["new_string"], 1), encoding="utf-8")


def _move(root: Path, args: dict[str, Any]) -> None:
    to = _inside(root, args["destination_path"])
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(_inside(root, args["source_path"]), to)


def _inside(root: Path, path: str) -> Path:
    return root / "PKM" / path.lstrip("/")


DOING = {
    "save_timeline_card": _save,
    "update_timeline_card_insight": _tell,
    "Write": _write,
    "Edit": _edit,
    "Move": _move,
}

if __name__ == "__main__":
    sys.stdout.write(act(Path(sys.argv[1]), json.load(sys.stdin)))
