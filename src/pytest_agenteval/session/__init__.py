"""One pytest run: its settings, which trials it plans, and how it carries them out."""
