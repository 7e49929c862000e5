"""Task files as pytest collects them: a module for each file, a function for each trial."""
