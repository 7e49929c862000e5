"""One pytest run: its settings, the trials that it plans, and how it runs them."""
