"""Which look decided how often the tasks of a comparison are repeated, and against which run it was."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.compare.sides import Side, SideGroup
from pytest_agenteval.store.run_documents import Group, SuiteLook


def look_at_pair(group: SideGroup, old: Side, new: Side) -> SuiteLook | None:
    """Give the look that decided about a suite of the new side against this very old side."""
    look = _look_of(new, (group.suite, *group.new))
    return look if look is not None and _was_against(look, group, old) else None


def looks_elsewhere(group: SideGroup, old: Side, new: Side) -> Iterator[SuiteLook]:
    """Give the looks at either side of a suite that were against other runs, and decided something."""
    look = _look_of(new, (group.suite, *group.new))
    if look is not None and look.spent and not _was_against(look, group, old):
        yield look
    if old.name != new.name:
        own = (group.suite, *group.old)
        yield from (before for before in old.looks if before.group == own and before.spent)


def _look_of(side: Side, group: Group) -> SuiteLook | None:
    return next((look for look in side.looks if look.group == group), None)


def _was_against(look: SuiteLook, group: SideGroup, old: Side) -> bool:
    if (look.old_model, look.old_variant) != group.old:
        return False
    own = (group.suite, *group.old)
    runs = (run for key, run in old.run_of.items() if (key.suite, key.model, key.variant) == own)
    if pooled := ", ".join(dict.fromkeys(runs)):
        return look.baseline == pooled
    # Of several files of several suites one side may be made, which has the names of all of them.
    return look.baseline in (old.name, *old.name.split(", "))
