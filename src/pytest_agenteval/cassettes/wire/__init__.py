"""Reads what agents and model APIs say to each other in the common wire formats; ``reader`` is the door."""
