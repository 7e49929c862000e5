"""Graders: each looks at the evidence and gives a score with its reasons."""
