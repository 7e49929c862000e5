"""Writes down what is registered, and which hooks there are."""

import inspect
import json

KINDS = (
    "agents examples executors graders importers judge_panels offline_models report_formats rubric_names "
    "toolsets"
)
registries = []


def pytest_agenteval_register(registry):
    """Keep the registry until everything is registered."""
    registries.append(registry)


def pytest_sessionfinish(session):
    """Write ``found.json``."""
    hook = session.config.pluginmanager.hook
    names = sorted(name for name in vars(hook) if name.startswith("pytest_agenteval"))
    specs = [getattr(hook, name).spec for name in names]
    hooks = {f"{spec.name}({', '.join(spec.argnames)})": inspect.getdoc(spec.function) for spec in specs}
    (registry,) = registries
    tables = {kind: sorted(map(str, getattr(registry, kind))) for kind in KINDS.split()}
    with open("found.json", "w", encoding="utf-8") as file:
        json.dump({"hooks": hooks, "tables": tables}, file)
