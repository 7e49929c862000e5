"""Tests of the loop that lets a coding agent change prompts."""
