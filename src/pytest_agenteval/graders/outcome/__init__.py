"""Graders of what a trial left behind: its answer, and the files of its workspace."""
