"""What the tasks beside this file are graded by, beyond the graders that come with pytest-agenteval."""

from pytest_agenteval import Check, Evidence, Grade, Registry


def style(evidence: Evidence) -> Grade:
    """Grade how the answer sounds; its score is the share of checks that passed."""
    words = len(evidence.answer.split())
    thanks = "thank" in evidence.answer.lower()
    checks = [
        Check("it thanks the customer", thanks, "thank", evidence.answer),
        Check("it is short", words <= 40, "40 words at most", f"{words} words"),
    ]
    return Grade.from_checks("{{suite}}_style", checks)


def pytest_agenteval_register(registry: Registry) -> None:
    """Give the grader the name that task files use."""
    registry.grader("{{suite}}_style", style)
