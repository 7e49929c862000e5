"""Evals of LLM agents as pytest items: trials that replay, grades that explain themselves.

What graders, agents, tools, importers, benchmarks and hooks may use is imported from here, and from nowhere
below: ``from pytest_agenteval import Check, Evidence, Grade``. Everything else may change without notice.
A name is imported from its module when it is first used, so that a plugin that nobody uses costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Each name stands twice: type checkers take only ``X as X`` for an export of this module.
    # isort: off
    from pytest_agenteval.agents.agent import Agent as Agent, AgentAnswer as AgentAnswer
    from pytest_agenteval.agents.agent import AgentContext as AgentContext, AgentFunction as AgentFunction
    from pytest_agenteval.agents.agent import AgentTraits as AgentTraits, ChecksInput as ChecksInput
    from pytest_agenteval.agents.agent import InputProblem as InputProblem, NextTurn as NextTurn
    from pytest_agenteval.agents.agent import PreparesInput as PreparesInput
    from pytest_agenteval.agents.agent import ReportsEndState as ReportsEndState
    from pytest_agenteval.agents.loop import RepeatedCallGuard as RepeatedCallGuard
    from pytest_agenteval.agents.loop import StopCondition as StopCondition
    from pytest_agenteval.agents.loop import ToolCallingAgent as ToolCallingAgent, converse as converse
    from pytest_agenteval.agents.loop import run_until_complete as run_until_complete
    from pytest_agenteval.calibration.calibration_file import CalibrationPlan as CalibrationPlan
    from pytest_agenteval.calibration.calibration_file import MetricThreshold as MetricThreshold
    from pytest_agenteval.calibration.labels import CalibrationAnswers as CalibrationAnswers
    from pytest_agenteval.calibration.labels import ExampleJudgement as ExampleJudgement
    from pytest_agenteval.calibration.labels import LabelledExample as LabelledExample
    from pytest_agenteval.cassettes.interaction import Request as Request, Response as Response
    from pytest_agenteval.chat.chat import Chat as Chat, ChatFactory as ChatFactory
    from pytest_agenteval.chat.chat import ChatMessage as ChatMessage, ChatSettings as ChatSettings
    from pytest_agenteval.chat.chat import Reply as Reply
    from pytest_agenteval.chat.offline.rules import Move as Move, RulesPlayer as RulesPlayer
    from pytest_agenteval.compare.scoring.intervals import Interval as Interval
    from pytest_agenteval.engine.executor import CalibrationRequest as CalibrationRequest
    from pytest_agenteval.engine.executor import CalibrationResult as CalibrationResult
    from pytest_agenteval.engine.executor import ChecksArgument as ChecksArgument, Executor as Executor
    from pytest_agenteval.engine.executor import ExecutorContext as ExecutorContext
    from pytest_agenteval.engine.executor import ExecutorReport as ExecutorReport
    from pytest_agenteval.engine.executor import TrialRequest as TrialRequest
    from pytest_agenteval.engine.executor import UnusedRecordings as UnusedRecordings
    from pytest_agenteval.graders.grader import Grader as Grader, GraderFunction as GraderFunction
    from pytest_agenteval.graders.grader import GraderTraits as GraderTraits, Judge as Judge
    from pytest_agenteval.graders.grader import JudgedGrader as JudgedGrader
    from pytest_agenteval.graders.grader import JudgeUnavailable as JudgeUnavailable
    from pytest_agenteval.graders.grader_settings import WrongSetting as WrongSetting
    from pytest_agenteval.graders.judge.judge_grader import RubricGrader as RubricGrader
    from pytest_agenteval.graders.judge.judge_grader import WithJudges as WithJudges, cut_middle as cut_middle
    from pytest_agenteval.graders.judge.judge_grader import dimension_check as dimension_check
    from pytest_agenteval.graders.judge.judge_grader import grade_from_judgement as grade_from_judgement
    from pytest_agenteval.graders.judge.judge_grader import join_within as join_within
    from pytest_agenteval.graders.judge.judge_grader import judgement_details as judgement_details
    from pytest_agenteval.graders.judge.judge_grader import no_judge_grade as no_judge_grade
    from pytest_agenteval.graders.judge.panel import ask_judges as ask_judges
    from pytest_agenteval.graders.judge.rubric import Dimension as Dimension, Rubric as Rubric
    from pytest_agenteval.graders.judge.rubric import read_rubric as read_rubric
    from pytest_agenteval.graders.judge.rubric import read_rubric_file as read_rubric_file
    from pytest_agenteval.graders.judge.verdicts import Judgement as Judgement
    from pytest_agenteval.graders.judge.verdicts import UnreadableReply as UnreadableReply, Verdict as Verdict
    from pytest_agenteval.graders.judge.verdicts import Vote as Vote
    from pytest_agenteval.graders.matchers import Matcher as Matcher, matcher_of as matcher_of
    from pytest_agenteval.records.evidence import UNDECIDED as UNDECIDED, Answer as Answer, Check as Check
    from pytest_agenteval.records.evidence import Evidence as Evidence, FileText as FileText, Grade as Grade
    from pytest_agenteval.records.evidence import Outcome as Outcome, Tree as Tree, TreeDiff as TreeDiff
    from pytest_agenteval.records.limits import Budget as Budget, Clock as Clock
    from pytest_agenteval.records.plan import Allowance as Allowance, Conditions as Conditions, Kind as Kind
    from pytest_agenteval.records.plan import McpServer as McpServer, Model as Model, ModelPrice as ModelPrice
    from pytest_agenteval.records.plan import Plan as Plan, PlannedGrader as PlannedGrader
    from pytest_agenteval.records.plan import PlannedTask as PlannedTask, PriceTier as PriceTier
    from pytest_agenteval.records.plan import TrialKey as TrialKey, Variant as Variant
    from pytest_agenteval.records.prompts import PromptBroken as PromptBroken, Prompts as Prompts
    from pytest_agenteval.records.prompts import read_templates as read_templates
    from pytest_agenteval.records.recorder import AddedPrompt as AddedPrompt, Recorder as Recorder
    from pytest_agenteval.records.tool_spec import ToolSpec as ToolSpec
    from pytest_agenteval.records.transcript import Ask as Ask, Event as Event, Message as Message
    from pytest_agenteval.records.transcript import ToolCall as ToolCall, ToolError as ToolError
    from pytest_agenteval.records.transcript import Transcript as Transcript, Usage as Usage
    from pytest_agenteval.records.trial import Digests as Digests, Ending as Ending
    from pytest_agenteval.records.trial import ErrorDetails as ErrorDetails, Origin as Origin
    from pytest_agenteval.records.trial import TapeCounts as TapeCounts, Trial as Trial
    from pytest_agenteval.registry.lazy_names import UnknownName as UnknownName
    from pytest_agenteval.registry.registry import Example as Example, Importer as Importer
    from pytest_agenteval.registry.registry import Registry as Registry
    from pytest_agenteval.reports.scorecard import Metric as Metric, MetricGroup as MetricGroup
    from pytest_agenteval.reports.scorecard import RegisteredScorecard as RegisteredScorecard
    from pytest_agenteval.reports.scorecard import ReportFormat as ReportFormat, ReportOption as ReportOption
    from pytest_agenteval.reports.scorecard import Scorecard as Scorecard, ScorecardMaker as ScorecardMaker
    from pytest_agenteval.reports.scorecard import Total as Total, TotalPart as TotalPart
    from pytest_agenteval.session.api.fixture import AgentEval as AgentEval
    from pytest_agenteval.session.api.recording import Recording as Recording, record as record
    from pytest_agenteval.session.api.running import Trials as Trials, arun as arun, grade as grade
    from pytest_agenteval.session.api.running import run as run, tool_calls as tool_calls
    from pytest_agenteval.session.api.suite import Suite as Suite, Task as Task, suite as suite
    from pytest_agenteval.store.imported_runs import ImportedRun as ImportedRun, RecordedCall as RecordedCall
    from pytest_agenteval.store.imported_runs import add_common_arguments as add_common_arguments
    from pytest_agenteval.store.imported_runs import make_project as make_project, misshapen as misshapen
    from pytest_agenteval.store.imported_runs import read_json as read_json, read_text as read_text
    from pytest_agenteval.store.imported_runs import replace_imported_runs as replace_imported_runs
    from pytest_agenteval.store.imported_runs import write_tool_cassette as write_tool_cassette
    from pytest_agenteval.store.imported_runs import write_yaml as write_yaml
    from pytest_agenteval.store.journal_entry import JournalEntry as JournalEntry, NotRunTrial as NotRunTrial
    from pytest_agenteval.store.journal_entry import StartedAttempt as StartedAttempt
    from pytest_agenteval.store.journal_entry import TranscriptLocation as TranscriptLocation
    from pytest_agenteval.store.journal_entry import TrialSpan as TrialSpan
    from pytest_agenteval.store.notes import Note as Note
    from pytest_agenteval.store.run_documents import SuiteLook as SuiteLook
    from pytest_agenteval.store.run_folder import Levels as Levels, PlannedGroup as PlannedGroup
    from pytest_agenteval.store.run_folder import RepetitionRule as RepetitionRule, Resumption as Resumption
    from pytest_agenteval.store.run_folder import RunHeader as RunHeader, RunModel as RunModel
    from pytest_agenteval.store.run_folder import RunPrices as RunPrices, RunSession as RunSession
    from pytest_agenteval.store.run_folder import RunShards as RunShards, RunSuite as RunSuite
    from pytest_agenteval.store.run_reader import Run as Run, load_run as load_run
    from pytest_agenteval.tasks.workspace import OutsideWorkspace as OutsideWorkspace, Workspace as Workspace
    from pytest_agenteval.text.errors import CAUSES as CAUSES, AgentEvalError as AgentEvalError
    from pytest_agenteval.text.errors import CassetteMiss as CassetteMiss, FixtureBroken as FixtureBroken
    from pytest_agenteval.text.errors import LimitReached as LimitReached, Problem as Problem
    from pytest_agenteval.text.errors import ProblemsFound as ProblemsFound, ProviderDown as ProviderDown
    from pytest_agenteval.text.errors import TranscriptLost as TranscriptLost, TrialBroken as TrialBroken
    from pytest_agenteval.text.errors import UsageMistake as UsageMistake
    from pytest_agenteval.text.json_values import ABSENT as ABSENT, PathError as PathError
    from pytest_agenteval.text.json_values import fold_text as fold_text, parse_path as parse_path
    from pytest_agenteval.text.json_values import value_at as value_at
    from pytest_agenteval.tools.tool import Fault as Fault, Tool as Tool, ToolFailed as ToolFailed
    from pytest_agenteval.tools.tool import ToolFunction as ToolFunction, ToolResult as ToolResult
    from pytest_agenteval.tools.tool import Wire as Wire
    from pytest_agenteval.tools.toolbox import ToolBox as ToolBox
    from pytest_agenteval.tools.toolsets import UnfitFunction as UnfitFunction, tool_of as tool_of
    # isort: on

__version__ = "0.1.0"

_NAMES = {
    "agents.agent": (
        "Agent AgentAnswer AgentContext AgentFunction AgentTraits ChecksInput InputProblem NextTurn "
        "PreparesInput ReportsEndState"
    ),
    "agents.loop": "converse RepeatedCallGuard run_until_complete StopCondition ToolCallingAgent",
    "calibration.calibration_file": "CalibrationPlan MetricThreshold",
    "calibration.labels": "CalibrationAnswers ExampleJudgement LabelledExample",
    "cassettes.interaction": "Request Response",
    "chat.chat": "Chat ChatFactory ChatMessage ChatSettings Reply",
    "chat.offline.rules": "Move RulesPlayer",
    "compare.scoring.intervals": "Interval",
    "engine.executor": (
        "CalibrationRequest CalibrationResult ChecksArgument Executor ExecutorContext ExecutorReport "
        "TrialRequest UnusedRecordings"
    ),
    "graders.grader": "Grader GraderFunction GraderTraits Judge JudgedGrader JudgeUnavailable",
    "graders.grader_settings": "WrongSetting",
    "graders.judge.judge_grader": (
        "cut_middle dimension_check grade_from_judgement join_within judgement_details no_judge_grade "
        "RubricGrader WithJudges"
    ),
    "graders.judge.panel": "ask_judges",
    "graders.judge.rubric": "Dimension read_rubric read_rubric_file Rubric",
    "graders.judge.verdicts": "Judgement UnreadableReply Verdict Vote",
    "graders.matchers": "Matcher matcher_of",
    "records.evidence": "Answer Check Evidence FileText Grade Outcome Tree TreeDiff UNDECIDED",
    "records.limits": "Budget Clock",
    "records.plan": (
        "Allowance Conditions Kind McpServer Model ModelPrice Plan PlannedGrader PlannedTask PriceTier "
        "TrialKey Variant"
    ),
    "records.prompts": "PromptBroken Prompts read_templates",
    "records.recorder": "AddedPrompt Recorder",
    "records.tool_spec": "ToolSpec",
    "records.transcript": "Ask Event Message ToolCall ToolError Transcript Usage",
    "records.trial": "Digests Ending ErrorDetails Origin TapeCounts Trial",
    "registry.lazy_names": "UnknownName",
    "registry.registry": "Example Importer Registry",
    "reports.scorecard": (
        "Metric MetricGroup RegisteredScorecard ReportFormat ReportOption Scorecard ScorecardMaker Total "
        "TotalPart"
    ),
    "session.api.fixture": "AgentEval",
    "session.api.recording": "record Recording",
    "session.api.running": "arun grade run tool_calls Trials",
    "session.api.suite": "Suite suite Task",
    "store.imported_runs": (
        "add_common_arguments ImportedRun make_project misshapen read_json read_text RecordedCall "
        "replace_imported_runs write_tool_cassette write_yaml"
    ),
    "store.journal_entry": "JournalEntry NotRunTrial StartedAttempt TranscriptLocation TrialSpan",
    "store.notes": "Note",
    "store.run_documents": "SuiteLook",
    "store.run_folder": (
        "Levels PlannedGroup RepetitionRule Resumption RunHeader RunModel RunPrices RunSession RunShards "
        "RunSuite"
    ),
    "store.run_reader": "load_run Run",
    "tasks.workspace": "OutsideWorkspace Workspace",
    "text.errors": (
        "AgentEvalError CassetteMiss CAUSES FixtureBroken LimitReached Problem ProblemsFound ProviderDown "
        "TranscriptLost TrialBroken UsageMistake"
    ),
    "text.json_values": "ABSENT fold_text parse_path PathError value_at",
    "tools.tool": "Fault Tool ToolFailed ToolFunction ToolResult Wire",
    "tools.toolbox": "ToolBox",
    "tools.toolsets": "tool_of UnfitFunction",
}
"""Module below this package, to the names that are offered of it, with blanks between."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import an offered name from its module (PEP 562); any other name is an AttributeError."""
    # ``import *`` requests it. It is made here: mypy would take an assigned one for an empty list.
    if name == "__all__":
        return sorted(_MODULE_OF)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Stored in the module, so that Python finds the name without this function from now on.
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    """List what is offered, imported or not."""
    return sorted({*globals(), *_MODULE_OF})
