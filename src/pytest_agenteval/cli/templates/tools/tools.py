"""The tools of this suite: each public function with type hints is one, and its docstring describes it."""


def knots(kilometres_per_hour: float) -> float:
    """A speed in knots."""
    return round(kilometres_per_hour / 1.852, 1)


def miles(kilometres: float) -> float:
    """A distance in miles."""
    return round(kilometres / 1.609344, 1)
