"""Plans of every kind, for tests of records; and conftests, which whoever gets a plan loads without a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from pytest_agenteval.records.plan import (
    Allowance,
    Conditions,
    Model,
    Plan,
    PlannedGrader,
    PlannedTask,
    Variant,
)
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.text.errors import UsageMistake

texts = st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=5)
maps = st.dictionaries(texts, values, max_size=3)
amounts = st.none() | st.integers(1, 9)
models = st.builds(Model, texts, texts, st.booleans(), maps, texts)
graders = st.builds(
    PlannedGrader, texts, texts, maps, st.floats(0.1, 9), st.none() | st.floats(0, 1), st.booleans()
)
allowances = st.builds(Allowance, amounts, amounts, amounts, amounts)
tasks = st.builds(
    PlannedTask,
    suite=texts,
    id=texts,
    agent=texts,
    kind=st.sampled_from(["capability", "regression", "mixed"]),
    bucket=texts,
    graders=st.lists(graders, max_size=2).map(tuple),
    input=maps,
    file=texts,
    tags=st.lists(texts, max_size=2).map(tuple),
    settings=maps,
    prompts=st.dictionaries(texts, texts, max_size=2),
    layers=st.lists(texts, max_size=2).map(tuple),
    limits=allowances,
    clock=st.none() | texts,
    reference=st.none() | maps,
    script=st.none() | st.lists(maps, max_size=2).map(tuple),
    split=st.sampled_from(["dev", "held_out"]),
    on_miss=st.sampled_from(["error", "tool_error"]),
)
conditions = st.builds(
    Conditions,
    record=st.sampled_from(["none", "once", "new_episodes", "all"]),
    record_chat=st.sampled_from(["off", "none", "once"]),
    judges=st.lists(models, max_size=2).map(tuple),
    seed=st.integers(0, 9),
)
variants = st.builds(Variant, texts, st.dictionaries(texts, texts, max_size=2))
plans = st.builds(Plan, tasks, models, variants, st.integers(1, 9), st.integers(1, 9), conditions)


def test_a_conftest_that_cannot_be_loaded_is_told_in_pytests_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file and what is missing; options for pytest runs do not matter."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option-either\n")
    (tmp_path / "conftest.py").write_text("import no_such_module_anywhere\n")
    with pytest.raises(UsageMistake, match="no_such_module_anywhere") as told:
        load_registry([tmp_path])
    assert "conftest.py" in str(told.value)
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_while_conftests_are_loaded_ends_more_than_the_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest keeps the interruption to itself; who asked must not go on as if nothing had been."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    hook = "@pytest.hookimpl(trylast=True)\ndef pytest_sessionstart():\n    raise KeyboardInterrupt\n"
    (tmp_path / "conftest.py").write_text(f"import pytest\n\n{hook}")
    with pytest.raises(KeyboardInterrupt):
        load_registry([tmp_path], [f"--rootdir={tmp_path}"])
