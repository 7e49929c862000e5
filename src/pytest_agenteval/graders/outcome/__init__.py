"""Graders of what a trial left behind: its answer, and the files of its workspace."""

from pytest_agenteval.graders.outcome.answer import AnswerContains, AnswerMatches
from pytest_agenteval.graders.outcome.answer_json import AnswerJson
from pytest_agenteval.graders.outcome.file_texts import FileContains, FileMatches
from pytest_agenteval.graders.outcome.file_values import FileValue, FrontMatter
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
