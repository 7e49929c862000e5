"""Cassettes that mean no good: they are refused with their place, and nothing in them is carried out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.cassettes.cassette_files import read_cassette
from pytest_agenteval.text.errors import ProblemsFound

LAUGHS = "\n".join(
    ["interactions:", "- &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
)
HOSTILE = {
    "aliases of aliases": LAUGHS,
    "a list that holds itself": "interactions: &all\n- *all\n",
    "a call of os.system": "interactions:\n- !!python/object/apply:os.system ['touch carried_out']\n",
    "an object of ours": "interactions:\n- !!python/object/new:pathlib.Path ['x']\n",
    "a name": "interactions:\n- request: {method: !!python/name:os.system , uri: 'tool://x'}\n",
    "nested without end": "interactions: " + "[" * 5_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_cassette_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """One problem that names the file, at once: no memory is filled and no function of Python's is called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(HOSTILE[kind], encoding="utf-8")
    with pytest.raises(ProblemsFound) as found:
        read_cassette(tmp_path / "x.yaml")
    assert "x.yaml" in str(found.value)
    assert len(str(found.value)) < 2000
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]
