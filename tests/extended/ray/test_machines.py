"""A cluster of several machines: what travels to them, and what happens when one dies or is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extended.ray.networks import environment, machines, needs_namespaces
from tests.extended.ray.projects import begun_again, carried_out, end, lines, looking, project, start, until
from tests.journals import trials

pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")

pytestmark = needs_namespaces

SLEEPING = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose trials take a second each."""
    tasks = (looking(f"t{number:03}", "sleep", seconds=1) for number in range(SLEEPING))
    return project(tmp_path / "project", *tasks)


def test_the_project_travels_with_its_keys_and_a_machine_that_dies_costs_what_was_in_flight(
    root: Path, tmp_path: Path
) -> None:
    """Actors work in a copy: the project's own folder is empty on their machines.

    A variable that is the key of a model goes along, another does not. The cluster stays as it was, without
    actors of ours; a machine that dies in the middle loses no trial and doubles none.
    """
    with machines(tmp_path, root, 3) as cluster:
        where = project(root, looking("where", "where"))
        env = environment(cluster, OPENAI_API_KEY="sk-proj-0123456789", OTHER_KEY="other")
        said = carried_out(where, "--agent-executor=ray:1", "-k", "where", "--agent-record=once", env=env)
        state = trials(root)["where"].outcome.answer.state
        (root / ".agenteval").rename(tmp_path / "first")
        (root / "evals" / "where.json").unlink()

        run = start(root, "--agent-executor=ray:3", "--agent-concurrency=12", env=env)
        until(lambda: len(lines(root, "finished")) > 12)
        cluster.kill(cluster.with_actor())
        ended = end(run)

    assert "1 passed" in said
    assert state == {"at_home": False, "home_is_empty": True, "key": "<redacted>", "other": ""}
    assert f"{SLEEPING} passed" in ended
    assert 1 <= begun_again(root, SLEEPING) <= 12


def test_a_machine_that_is_cut_off_is_given_up(root: Path, tmp_path: Path) -> None:
    """Nothing is refused and nothing answered: the run goes on without it, and loses and doubles nothing."""
    with machines(tmp_path, root, 2) as cluster:
        env = environment(cluster)
        run = start(root, "--agent-executor=ray:2", "--agent-concurrency=12", env=env)
        until(lambda: len(lines(root, "finished")) > 12)
        cluster.cut_off(cluster.with_actor())
        ended = end(run)

    assert f"{SLEEPING} passed" in ended
    assert 1 <= begun_again(root, SLEEPING) <= 12
