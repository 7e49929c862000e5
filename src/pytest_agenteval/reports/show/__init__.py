"""One trial on the terminal: which one is meant, all that is known of it, the same of another run."""
