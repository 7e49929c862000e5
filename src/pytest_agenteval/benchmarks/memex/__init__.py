"""Memex's Card Agent and PKM Agent evals."""
