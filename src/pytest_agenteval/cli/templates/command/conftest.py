"""What the tasks beside this file are graded by, beyond the graders that come with pytest-agenteval."""

from pytest_agenteval import Check, Evidence, Grade, Registry

OPEN = ("tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def style(evidence: Evidence) -> Grade:
    """Grade whether the answer helps; its score is the share of checks that passed."""
    words = len(evidence.answer.split())
    names_day = any(day in evidence.answer.lower() for day in OPEN)
    checks = [
        Check("it names a day that is open", names_day, "a day but Monday", evidence.answer),
        Check("it is short", words <= 40, "40 words at most", f"{words} words"),
    ]
    return Grade.from_checks("{{suite}}_style", checks)


def pytest_agenteval_register(registry: Registry) -> None:
    """Give the grader the name that task files use."""
    registry.grader("{{suite}}_style", style)
