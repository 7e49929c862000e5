"""Plays and records what user code asks over HTTP, whichever library it uses, one tape for each trial."""
