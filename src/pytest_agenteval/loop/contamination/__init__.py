"""Contamination: what of a suite's tasks stands in a prompt: ids, expected values, pieces of inputs."""
