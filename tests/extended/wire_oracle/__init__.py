"""Compares the reader of model traffic with litellm on the same files: ``pytest tests/extended/wire_oracle``.

litellm takes seconds to import, so these run by themselves, and not with the suite.
"""
