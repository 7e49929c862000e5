"""Tools that an OpenAPI document describes."""
