"""The first suite of ``agenteval init MODULE:FUNCTION``: one file around an agent that is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.registry.lazy_names import AgentNotImported, import_suite_agent
from pytest_agenteval.text.errors import UsageMistake, did_you_mean, nearest_names

if TYPE_CHECKING:
    from pytest_agenteval.agents.callable_agent import CallableFactory

_CALL = re.compile(r"(?P<module>[\w./]+):(?P<name>[^\W\d]\w*)")


class NamedFunction(FrozenValue, frozen=True):
    """What ``agenteval init`` was given instead of a folder: the module and the name in it that acts."""

    module: str
    name: str

    @property
    def call(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def suite(self) -> str:
        """The name of the suite, if its author gives none: that of the outermost package."""
        return self.module.partition(".")[0]


# What to do after the suite was written, in words, each with its line.
FIRST_STEPS: Mapping[str, str] = {
    "run it: your agent calls its model, and the replies are recorded": "{pytest} --agent-record-chat=once",
    "run it again: the recorded replies are replayed, and nothing is sent": "{pytest}",
    "a miss looks like this; its graders' reasons and the answer follow": (
        "MISSED 0.00  {name}/own_question[own-1]"
    ),
    "compare a changed prompt with today's": (
        "{pytest} --agent-live --agent-prompt new=prompts/new.md --repetitions 3"
    ),
}


def named_function(text: str | None) -> NamedFunction | None:
    """Read ``module:name``, or ``path/to/module.py:name``; None for a folder.

    Raises UsageMistake for a module without a name in it.
    """
    if text is None or Path(text).is_dir():
        return None
    dotted = text.removesuffix(".py").replace("/", ".").replace("\\", ".")
    if Path(f"{dotted.replace('.', '/')}.py").is_file():
        raise UsageMistake(f"{text} is a module: name the function in it too, as in {dotted}:answer")
    found = _CALL.fullmatch(text)
    # A single letter is a drive of Windows.
    if found is None or len(found["module"]) == 1:
        return None
    return NamedFunction(found["module"].removesuffix(".py").replace("/", "."), found["name"])


def import_function(named: NamedFunction, root: Path) -> CallableFactory:
    """Import what acts, as a trial would; raises UsageMistake with what is there instead."""
    try:
        # What the module prints is no part of the document that init may write.
        with redirect_stdout(sys.stderr):
            factory = import_suite_agent({"call": named.call, "paths": [str(root)]})
    except AgentNotImported as missing:
        raise UsageMistake(f"{named.call}: {'; '.join(_reasons(named, missing, root))}") from None
    acting: CallableFactory = factory  # type: ignore[assignment]  # of a form with `call`
    # Prompts are given by files, so a parameter that is named like one needs no default.
    for _, expected, found, *hint in acting.parameter_problems({}, ()):
        # Without a hint it is a function that takes nothing, and says so.
        first = f"{found}: nothing fills these parameters" if any(hint) else found
        raise UsageMistake("\n  ".join([first, f"expected {expected}", *filter(None, hint)]))
    return acting


def takes_prompt(acting: CallableFactory) -> bool:
    """Whether a prompt file can take the place of one of the agent's prompts."""
    names = acting.prompt_names or ()
    return acting.reads_any_prompt or any(name.endswith(("system", "prompt")) for name in names)


def prompt_notes(function: NamedFunction) -> tuple[str, ...]:
    """Give the two ways in which prompts of an agent without a prompt parameter can be compared."""
    parameter = f"give {function.name} a parameter `system_prompt`; its default is today's prompt"
    return (
        f"to compare prompts: {parameter}",
        "  or name the prompt's file in suite.yaml: prompts: {system: ../../prompts/system.md}",
    )


def _reasons(named: NamedFunction, missing: AgentNotImported, root: Path) -> Iterator[str]:
    cause = missing.__cause__
    if isinstance(cause, AttributeError) and cause.name == named.name:
        own = [
            name
            for name, value in vars(cause.obj).items()
            if callable(value) and getattr(value, "__module__", "") == named.module and name[0] != "_"
        ]
        yield f"the module {named.module} has no {named.name!r}"
        yield f"it has {nearest_names(named.name, own)}" if own else "it has no function and no class"
        yield did_you_mean(named.name, own) or "name one of them"
    elif isinstance(cause, ModuleNotFoundError) and named.module.startswith(str(cause.name)):
        modules = sorted(_modules_below(root))
        yield f"there is no module {cause.name!r} in {root}, nor where Python looks"
        yield (
            f"in {root} there are {nearest_names(named.module, modules)}" if modules else "no module is there"
        )
        yield (
            did_you_mean(named.module, modules)
            or "a package below src/ has to be installed: pip install -e ."
        )
    else:
        found = missing.found.removeprefix(f"{named.call!r}: ")
        yield f"importing it raised {found}" if cause else found


def _modules_below(root: Path) -> Iterator[str]:
    """Give the modules of a project that can be imported from its root, two levels deep."""
    for pattern in ("*.py", "*/*.py"):
        for path in root.glob(pattern):
            parts = path.relative_to(root).with_suffix("").parts
            if all(part.isidentifier() for part in parts) and parts[-1] not in (
                "__init__",
                "conftest",
                "setup",
            ):
                yield ".".join(parts)
