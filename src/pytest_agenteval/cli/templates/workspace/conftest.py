"""What the tasks below this folder are graded by, beyond the graders that come with pytest-agenteval."""

from pytest_agenteval import Check, Evidence, Grade, Registry


def style(evidence: Evidence) -> Grade:
    """Grade how notes were changed; its score is the share of checks that passed."""
    checks = []
    for path in evidence.diff.modified:
        before = (evidence.before.text(path) or "").splitlines()
        after = (evidence.after.text(path) or "").splitlines()
        lost = [line for line in before if line not in after]
        checks.append(Check(f"{path} keeps its lines", not lost, "all of them", f"lost: {lost}"))
        checks.append(
            Check(f"{path} keeps its title", after[:1] == before[:1], str(before[:1]), str(after[:1]))
        )
    return Grade.from_checks("{{suite}}_style", checks)


def pytest_agenteval_register(registry: Registry) -> None:
    """Give the grader the name that task files use."""
    registry.grader("{{suite}}_style", style)
