"""Tools that agents call, and the tool box that checks and records every call."""
