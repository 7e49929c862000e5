"""Two runs beside each other, in words: a sentence, a screen, Markdown, JSON."""
