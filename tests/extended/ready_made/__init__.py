"""Real ready-made agents, each if it is on PATH: a command of its own."""
