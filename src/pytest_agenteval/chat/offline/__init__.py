"""Models that need no key and send nothing: they show that tasks can be solved and that graders notice it."""
