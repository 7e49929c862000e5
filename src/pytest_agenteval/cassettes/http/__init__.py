"""Plays and records what user code asks over HTTP, whichever library it uses, one tape for each trial."""

from __future__ import annotations

from pytest_agenteval.cassettes.http.installing import remove
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope, untaped
from pytest_agenteval.cassettes.http.taping import taped_http

__all__ = ["NotRecorded", "Scope", "remove", "taped_http", "untaped"]
