"""What is around a call in a script or a notebook: registered names, a root, settings."""

from __future__ import annotations

import os
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registration import get_registry, open_configs
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.api.environment import Environment, ScriptEnvironment
from pytest_agenteval.session.api.task_choice import TaskGiven, project_root, task_file


def is_in_pytest() -> bool:
    """Whether a pytest session is under way in this process."""
    return bool(open_configs)


def script_environment(task: TaskGiven) -> Environment:
    """Give what is around a call in a script; in a pytest session, what that has, though not its run."""
    if is_in_pytest():
        return _beside_session(open_configs[-1])
    here = Path.cwd()
    if isinstance(task, str | Path):
        file = task_file(here / str(task).partition("::")[0], str(task))
        root = project_root(file)
        return _environment(_registry_of_project(file.parent, root), root)
    return _environment(_installed(), project_root(here))


def _environment(registry: Registry, root: Path) -> Environment:
    from pytest_agenteval.session.secrets import learn_secrets
    from pytest_agenteval.session.settings_reading import project_settings

    settings = project_settings(root)
    learn_secrets(settings)
    environment = ScriptEnvironment(registry, root, settings)
    environment.script = script_command()
    return environment


def script_command() -> str:
    """Give the command that starts the script which runs here; nothing in a notebook or an interpreter."""
    file = sys.argv[0] if sys.argv else ""
    interactive = "ipykernel" in sys.modules or hasattr(sys, "ps1") or not os.path.isfile(file)
    return "" if interactive else f"python {shlex.quote(file)}"


def _beside_session(config: Any) -> Environment:
    from pytest_agenteval.session.settings_reading import read_settings

    return ScriptEnvironment(get_registry(config), config.rootpath, read_settings(config))


@cache
def _registry_of_project(folder: Path, root: Path) -> Registry:
    """Give what conftests register: they are loaded once in a process."""
    from pytest_agenteval.registry.registration import load_registry

    return load_registry([folder], (f"--rootdir={root}",))


@cache
def _installed() -> Registry:
    return installed_registry()
