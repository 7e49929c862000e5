"""Agents that are not ours: a function of the user's, a command, an HTTP endpoint."""
