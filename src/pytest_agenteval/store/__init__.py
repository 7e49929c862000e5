"""Runs on disk: folders, journals, transcripts. Written as trials finish, readable at any time."""
