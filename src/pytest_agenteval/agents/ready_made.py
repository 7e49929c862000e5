"""Ready-made agents as data: how each is started without a person, and led to its trial's addresses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.agents.agent import InputProblem
from pytest_agenteval.agents.model_upstreams import bare_name, wire_of_model
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.text.errors import did_you_mean


class ReadyMade(FrozenValue, frozen=True):
    """How a ready-made agent is started.

    ``{NAME}`` in a text is a variable of the trial, such as ``{OPENAI_BASE_URL}``; ``{model}`` is the bare
    name of the run's model and ``{wire}`` its provider's wire, ``{model=x}`` x where the run names none. What
    holds one without a value is left out, be it a group of arguments, a variable or a file: so it is with
    ``{AGENTEVAL_MCP_URL}`` where there are no tools. ``files`` are paths below HOME. The task's text,
    ``{content}``, is standard input and the file ``{AGENTEVAL_TASK}`` too. The answer is what the program
    prints; where it prints more than that, it is the model's last reply (``answers_by`` is ``reply``), or an
    argument of its last call (``tool.argument``).
    """

    version: str
    install: str
    program: str
    arguments: Sequence[Sequence[str]]
    env: Mapping[str, str] = NOTHING
    files: Mapping[str, str] = NOTHING
    ignored_hosts: Sequence[str] = ()
    answers_by: str = "output"


READY_MADE: Mapping[str, ReadyMade] = {
    "claude-code": ReadyMade(
        version="2.1.332",
        install="npm install -g @anthropic-ai/claude-code",
        program="claude",
        arguments=(
            ("-p", "--output-format", "text", "--permission-mode", "bypassPermissions"),
            ("--strict-mcp-config",),
            ("--mcp-config", '{"mcpServers": {"agenteval": {"type": "http", "url": "{AGENTEVAL_MCP_URL}"}}}'),
            ("--model", "{model}"),
        ),
        env={
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Without it, nothing may be done as root without a question, as in a container.
            "IS_SANDBOX": "1",
            # Else the suite's tools are in no request until the model searches for them.
            "ENABLE_TOOL_SEARCH": "false",
        },
    ),
    "codex": ReadyMade(
        version="0.171.0",
        install="npm install -g @openai/codex",
        program="codex",
        arguments=(
            ("exec", "--skip-git-repo-check", "--ephemeral", "--dangerously-bypass-approvals-and-sandbox"),
            ("--model", "{model}"),
            ("-c", 'mcp_servers.agenteval.url="{AGENTEVAL_MCP_URL}"'),
            ("-",),
        ),
        files={
            ".codex/config.toml": "\n".join(
                (
                    'model_provider = "trial"',
                    "check_for_update_on_startup = false",
                    "[model_providers.trial]",
                    'name = "trial"',
                    'base_url = "{OPENAI_BASE_URL}"',
                    'env_key = "OPENAI_API_KEY"',
                    'wire_api = "responses"',
                    "[analytics]",
                    "enabled = false",
                    "[features]",
                    "apps = false",
                    "plugins = false",
                    "remote_plugin = false",
                )
            ),
        },
    ),
    "gemini-cli": ReadyMade(
        version="0.61.0",
        install="npm install -g @google/gemini-cli",
        program="gemini",
        arguments=(("--approval-mode", "yolo", "--skip-trust", "--output-format", "text"), ("-m", "{model}")),
        files={
            ".gemini/settings.json": (
                '{"security": {"auth": {"selectedType": "gemini-api-key"}}, '
                '"general": {"disableAutoUpdate": true, "disableUpdateNag": true}, '
                '"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}}'
            ),
            ".gemini/extensions/agenteval/gemini-extension.json": (
                '{"name": "agenteval", "version": "1.0.0", '
                '"mcpServers": {"agenteval": {"httpUrl": "{AGENTEVAL_MCP_URL}"}}}'
            ),
        },
    ),
    "openhands": ReadyMade(
        version="1.16.0",
        install="pip install openhands",
        program="openhands",
        arguments=(("--headless", "--override-with-envs", "--task={content}"),),
        env={
            "LLM_MODEL": "{wire=openai}/{model=gpt-5-mini}",
            "LLM_API_KEY": "agenteval",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
        # It looks there for a newer version and for skills; no setting prevents that.
        ignored_hosts=("pypi.org", "github.com"),
        answers_by="finish.message",
        files={".openhands/mcp.json": '{"mcpServers": {"agenteval": {"url": "{AGENTEVAL_MCP_URL}"}}}'},
    ),
    "goose": ReadyMade(
        version="1.52.0",
        install="npm install -g @aaif/goose-binary-linux-x64",
        program="goose",
        arguments=(("run", "--quiet", "--no-session", "--with-builtin", "developer", "-i", "-"),),
        env={
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "{model=gpt-5-mini}",
            "GOOSE_DISABLE_SESSION_NAMING": "true",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "OPENAI_HOST": "{OPENAI_BASE_URL}",
            "OPENAI_BASE_PATH": "chat/completions",
        },
        files={
            ".config/goose/config.yaml": (
                "extensions:\n  agenteval: {enabled: true, type: streamable_http, name: agenteval, "
                "description: tools, uri: '{AGENTEVAL_MCP_URL}', timeout: 300}\n"
            ),
        },
        answers_by="reply",
    ),
    "aider": ReadyMade(
        version="0.86.2",
        install="pip install aider-chat",
        program="aider",
        arguments=(
            ("--message-file", "{AGENTEVAL_TASK}", "--yes-always", "--no-pretty", "--no-git"),
            ("--no-check-update", "--no-show-release-notes", "--no-analytics", "--no-show-model-warnings"),
            ("--chat-history-file", "{HOME}/history.md", "--input-history-file", "{HOME}/input"),
            ("--model", "{wire}/{model}"),
        ),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        files={".aider/caches/model_prices_and_context_window.json": '{"none": {}}'},
        answers_by="reply",
    ),
}
"""Ready-made agents by the name that ``cli`` has in suite.yaml."""

Values: TypeAlias = Mapping[str, str]
_PLACEHOLDER = re.compile(r"\{([A-Z_]+|content|model|wire)(?:=([\w.-]*))?\}")


def command_form_of(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the form of a command that stands for ``{cli: NAME}``; each trial fills in its arguments."""
    agent = READY_MADE[form["cli"]]
    ignored = [*form.get("ignored_hosts", ()), *agent.ignored_hosts]
    return {**form, "command": [agent.program], "output": "text", "ignored_hosts": ignored}


def ready_made_problems(form: Mapping[str, Any]) -> Iterator[InputProblem]:
    """Say what keeps a ready-made agent from being started: a name that is none, or a missing program."""
    name, place = form["cli"], ("agent", "cli")
    agent = READY_MADE.get(name)
    if agent is None:
        yield place, f"one of {', '.join(READY_MADE)}", repr(name), did_you_mean(name, READY_MADE)
    elif not form.get("image") and shutil.which(agent.program) is None:
        yield place, f"`{agent.program}` on PATH", "nothing", agent.install


def make_ready(
    form: Mapping[str, Any], command: Sequence[str], environ: Mapping[str, str], home: Path, values: Values
) -> tuple[list[str], dict[str, str]]:
    """Give the command line and the environment of a trial, and write the agent's files into its ``home``."""
    agent, values = READY_MADE[form["cli"]], {**environ, **values}
    for path, text in agent.files.items():
        if (filled := _filled(text, values)) is not None:
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(filled, encoding="utf-8", newline="\n")
    groups = [[_filled(part, values) for part in group] for group in agent.arguments]
    arguments = [part for group in groups if None not in group for part in group if part is not None]
    own = {variable: _filled(text, values) for variable, text in agent.env.items()}
    # What the suite's ``env`` says comes after what the table says.
    variables = {variable: text for variable, text in own.items() if text is not None}
    return [*command, *arguments, *form.get("args", ())], {**variables, **environ}


def values_of(content: str, model: Model) -> Values:
    """Give the values of a trial that are no variables."""
    name = bare_name(model)
    return {"content": content} | ({} if name is None else {"model": name, "wire": wire_of_model(model)})


def final_answer(form: Mapping[str, Any], output: Answer | None, transcript: Transcript) -> Answer | None:
    """Give a ready-made agent's answer: from its output, or from what its model replied last."""
    replies = [message for message in transcript.messages if message.role == "assistant"]
    answers_by = READY_MADE[form["cli"]].answers_by
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
