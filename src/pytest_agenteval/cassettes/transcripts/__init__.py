"""Transcripts that somebody else wrote, read: messages of OpenAI and Anthropic, trajectories, spans."""
