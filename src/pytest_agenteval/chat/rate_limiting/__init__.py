"""How much a model is asked at once and per minute, by all processes of a run together, and when no more."""
