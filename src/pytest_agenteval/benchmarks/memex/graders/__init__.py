"""Graders after Memex's evals of its journal agents.

Each has a ``mode``. ``upstream`` scores exactly as Memex does, faults included, so that figures can be
compared with its own. ``default`` scores what Memex says it means to.
"""
