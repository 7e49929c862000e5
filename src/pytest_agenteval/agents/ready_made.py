"""Ready-made agents as data: how each is started without a person, and led to its trial's addresses."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.agents.agent import InputProblem
from pytest_agenteval.agents.model_upstreams import bare_name
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue, from_builtins
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.text.errors import did_you_mean


class ReadyMade(FrozenValue, frozen=True):
    """How a ready-made agent is started without a person: a row of ``ready_made.yaml``.

    ``{NAME}`` in a text is a variable of the trial, such as ``{OPENAI_BASE_URL}``; ``{model}`` is the bare
    name of the run's model, ``{wire}`` openai or anthropic, ``{model=x}`` x where the run names none. What
    holds one without a value is left out, be it a group of arguments, a variable or a file: so it is with
    ``{AGENTEVAL_MCP_URL}`` where there are no tools. ``files`` are paths below HOME. The task's text,
    ``{content}``, is standard input and the file ``{AGENTEVAL_TASK}`` too. The answer is what the program
    prints; where it prints more than that, it is the model's last reply (``answers_by`` is ``reply``), or an
    argument of its last call (``tool.argument``).
    """

    version: str
    install: str
    program: str
    arguments: tuple[str, ...]
    env: Mapping[str, str] = NOTHING
    files: Mapping[str, str] = NOTHING
    ignored_hosts: tuple[str, ...] = ()
    answers_by: str = "output"


@cache
def ready_made() -> Mapping[str, ReadyMade]:
    """Give the ready-made agents by the name that ``cli`` has in suite.yaml."""
    # Imported where it is used: most suites have no such agent.
    import yaml

    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: from_builtins(ReadyMade, row) for name, row in rows.items()}


Values: TypeAlias = Mapping[str, str]
_PLACEHOLDER = re.compile(r"\{([A-Z_]+|content|model|wire)(?:=([\w.-]*))?\}")


def command_form_of(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the form of a command that stands for ``{cli: NAME}``; each trial fills in its arguments."""
    agent = ready_made()[form["cli"]]
    ignored = [*form.get("ignored_hosts", ()), *agent.ignored_hosts]
    return {**form, "command": [agent.program], "output": "text", "ignored_hosts": ignored}


def ready_made_problems(form: Mapping[str, Any]) -> Iterator[InputProblem]:
    """Say what keeps a ready-made agent from being started: a name that is none, or a missing program."""
    name, place = form["cli"], ("agent", "cli")
    agent = ready_made().get(name)
    if agent is None:
        yield place, f"one of {', '.join(ready_made())}", repr(name), did_you_mean(name, ready_made())
    elif not form.get("image") and shutil.which(agent.program) is None:
        yield place, f"`{agent.program}` on PATH", "nothing", agent.install


def make_ready(
    form: Mapping[str, Any], command: Sequence[str], environ: Mapping[str, str], home: Path, values: Values
) -> tuple[list[str], dict[str, str]]:
    """Give the command line and the environment of a trial, and write the agent's files into its ``home``."""
    agent, values = ready_made()[form["cli"]], {**environ, **values}
    for path, text in agent.files.items():
        if (filled := _filled(text, values)) is not None:
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(filled, encoding="utf-8", newline="\n")
    groups = [[_filled(part, values) for part in shlex.split(group)] for group in agent.arguments]
    arguments = [part for group in groups if None not in group for part in group if part is not None]
    arguments += [_filled(part, values) or part for part in form.get("args", ())]
    own = {variable: _filled(text, values) for variable, text in agent.env.items()}
    # What the suite's ``env`` says comes after what the table says.
    variables = {variable: text for variable, text in own.items() if text is not None}
    return [*command, *arguments], {**variables, **environ}


def values_of(content: str, model: Model) -> Values:
    """Give the values of a trial that are no variables."""
    name = bare_name(model)
    # Whatever wire an agent speaks, its requests are answered by the model that the run names.
    wire = "anthropic" if model.id.startswith("anthropic/") else "openai"
    return {"content": content} | ({} if name is None else {"model": name, "wire": wire})


def final_answer(form: Mapping[str, Any], output: Answer | None, transcript: Transcript) -> Answer | None:
    """Give a ready-made agent's answer: from its output, or from what its model replied last."""
    replies = [message for message in transcript.messages if message.role == "assistant"]
    answers_by = ready_made()[form["cli"]].answers_by
    if answers_by == "output" or not replies:
        return output
    tool, _, argument = answers_by.partition(".")
    finish = next((call for call in replies[-1].calls if argument and call.tool == tool), None)
    return Answer(replies[-1].content if finish is None else str(finish.args.get(argument, "")))


def _filled(text: str, values: Mapping[str, str]) -> str | None:
    """Fill a text's placeholders; None where one has no value."""
    if any(name not in values and not default for name, default in _PLACEHOLDER.findall(text)):
        return None
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[2]), text)
