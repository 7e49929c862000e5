"""Tools that agents call, and the box that watches over every call."""
