"""Tools that are one HTTP request, declared in YAML and not in code."""
