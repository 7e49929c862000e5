"""The names that are offered, for type checkers, and for ``__init__.py``, which reads them here."""

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

__version__: str
_MODULE_OF: dict[str, str]
