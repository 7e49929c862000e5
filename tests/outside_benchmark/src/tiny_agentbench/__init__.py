"""How well does an agent greet? A benchmark of one question."""
