"""Answers the requests of an agent's own client with another model than the one that they name."""
