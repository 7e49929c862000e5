"""``python -m tests.extended.chaos``: what becomes of runs that are killed, starved or handed bad files."""
