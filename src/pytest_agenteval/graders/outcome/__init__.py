"""Graders of what a trial left behind: its answer, and the files of its workspace."""

from pytest_agenteval.graders.outcome.answer import AnswerContains, AnswerJson, AnswerMatches
from pytest_agenteval.graders.outcome.file_contents import FileContains, FileMatches, FileValue, FrontMatter
from pytest_agenteval.graders.outcome.files import FileExists, FileUnchanged

__all__ = [
    "AnswerContains",
    "AnswerJson",
    "AnswerMatches",
    "FileContains",
    "FileExists",
    "FileMatches",
    "FileUnchanged",
    "FileValue",
    "FrontMatter",
]
