"""Graders of what happened during a trial: which tools were called, how, and how much it took."""
