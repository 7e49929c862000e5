"""Trials on Ray clusters that really run: by a command of its own, for each takes seconds to come up."""
