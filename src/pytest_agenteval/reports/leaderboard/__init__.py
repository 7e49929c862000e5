"""Runs side by side: a row for each run and model, by level or by bucket, best first."""
