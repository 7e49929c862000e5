"""What the tasks beside this file are graded by, beyond the graders that come with pytest-agenteval."""

from pytest_agenteval import Check, Evidence, Grade, Registry


def style(evidence: Evidence) -> Grade:
    """Grade how the answer is written; its score is the share of checks that passed."""
    words = len(evidence.answer.split())
    names_unit = "knots" in evidence.answer or "miles" in evidence.answer
    checks = [
        Check("it names the unit", names_unit, "knots or miles", evidence.answer),
        Check("it is no question", "?" not in evidence.answer, "no question mark", evidence.answer),
        Check("it is short", words <= 20, "20 words at most", f"{words} words"),
    ]
    return Grade.from_checks("{{suite}}_style", checks)


def pytest_agenteval_register(registry: Registry) -> None:
    """Give the grader the name that task files use."""
    registry.grader("{{suite}}_style", style)
