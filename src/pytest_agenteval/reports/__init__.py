"""Stored runs for people and programs: one view, shown in several ways. It runs nothing."""
