"""Reports in a real browser: pytest tests/browser, with playwright's Python package and Chromium."""
