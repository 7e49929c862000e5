"""Texts as people write them: words, numbers, dates, times and addresses, looked for in other texts."""
