"""A tool without a request."""


def wave(to: str) -> str:
    """Wave to somebody."""
    return f"{to} waves back"
