"""A coding agent that changes a prompt."""

from pathlib import Path

Path("prompts/system.md").write_text("You greet people. Thank everybody.\n", encoding="utf-8")
print("said thank you")
