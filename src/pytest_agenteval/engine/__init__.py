"""Carrying out trials: plans in, trials out; knows no pytest and no disk of results."""
