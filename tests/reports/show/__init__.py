"""One trial on the terminal."""
