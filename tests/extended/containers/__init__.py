"""Agents in real containers."""
