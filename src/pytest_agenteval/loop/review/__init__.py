"""A person's labels for trials of a run: what is shown, what is asked, what is written down."""
