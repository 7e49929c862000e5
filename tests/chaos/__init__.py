"""Runs that are killed, starved and lied to: ``python -m tests.chaos`` says of each what became of it."""
