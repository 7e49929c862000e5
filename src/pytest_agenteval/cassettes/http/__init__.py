"""Plays and records what user code asks over HTTP, whichever library it uses, one tape for each trial."""

from __future__ import annotations

from pytest_agenteval.cassettes.http.patches import own_requests, remove, taped_http
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope, let_out, untaped

__all__ = ["NotRecorded", "Scope", "let_out", "own_requests", "remove", "taped_http", "untaped"]
