"""What code says to an agent: its texts and comments. The names in it are its authors' own."""

from __future__ import annotations

import io
import tokenize


def without_names(text: str) -> str | None:
    """Give Python code with a blank in the place of each name, line for line; None for what is no Python."""
    text = text.replace("\r", " ")  # which tokenize takes for the end of a line, and we do not
    lines = [list(line) for line in text.split("\n")]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                (line, start), (_, end) = token.start, token.end
                lines[line - 1][start:end] = " " * (end - start)
    except (tokenize.TokenError, SyntaxError):
        return None
    return "\n".join("".join(line) for line in lines)
