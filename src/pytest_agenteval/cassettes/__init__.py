"""Recordings of tools and models in vcrpy's file format, and the tapes that trials play them from."""

from __future__ import annotations

from pytest_agenteval.cassettes.cassette import KINDS, MODES, Cassette, Kind, Mode
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response, ToolAnswer
from pytest_agenteval.cassettes.library import Library
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.request_identity import Match
from pytest_agenteval.cassettes.tape import Tape

__all__ = [
    "KINDS",
    "MODES",
    "Cassette",
    "Interaction",
    "Kind",
    "Library",
    "Match",
    "Mode",
    "Redactor",
    "Request",
    "Response",
    "Tape",
    "ToolAnswer",
]
