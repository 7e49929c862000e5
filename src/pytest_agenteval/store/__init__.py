"""Runs on disk: folders, journals, transcripts; written while trials finish, read at any time later."""
