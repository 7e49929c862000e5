"""Models that need no key and send nothing: they prove that tasks can be solved, and that graders see it."""
