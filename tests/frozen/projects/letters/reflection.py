"""A model that gepa asks for a better prompt."""

import sys

sys.stdin.read()
print("```\nYou greet people. Thank everybody.\n```")
