"""Feedback as Markdown, and as files for whoever changes the prompts."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.loop.feedback.content import Feedback
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS

MARKDOWN_FILE, JSON_FILE = "feedback.md", "feedback.json"


def feedback_markdown(feedback: Feedback) -> str:
    """Write feedback as Markdown in which what trials said is data, and no secret stands."""
    return KNOWN_SECRETS.text(f"# Feedback on {feedback.run}\n")


def feedback_json(feedback: Feedback) -> str:
    """Write feedback as JSON, without the text of its template and without secrets."""
    data = feedback.to_json()
    del data["template"]
    return json.dumps(KNOWN_SECRETS.value(data), ensure_ascii=False, indent=2) + "\n"


def write_feedback(feedback: Feedback, folder: Path) -> None:
    """Write ``feedback.md`` and ``feedback.json`` into a folder, which is made where it is not there.

    Raises UsageMistake where that cannot be.
    """
    texts = {MARKDOWN_FILE: feedback_markdown(feedback), JSON_FILE: feedback_json(feedback)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            place = folder / name
            place.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as refused:
        raise UsageMistake(f"{folder}: cannot be written ({refused.strerror})") from None
