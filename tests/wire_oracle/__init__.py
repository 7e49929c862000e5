"""Holds the reader of model traffic against litellm, on the same files: ``pytest tests/wire_oracle``.

litellm takes seconds to import, so these run by themselves, and not with the suite.
"""
