"""Tests of transcripts that somebody else wrote."""
