"""Plays and records what user code asks over HTTP, whichever library it uses, one tape for each trial."""

from __future__ import annotations

from pytest_agenteval.cassettes.http.installing import remove
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope, let_out, untaped
from pytest_agenteval.cassettes.http.taping import own_requests, taped_http

__all__ = ["NotRecorded", "Scope", "let_out", "own_requests", "remove", "taped_http", "untaped"]
