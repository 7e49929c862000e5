"""Runs that go on, and finished trials that are taken over: what is kept, graded again, tried again."""
