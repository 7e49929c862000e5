"""Checks that README's test command does not run: they take minutes, or need what it does not install."""
