"""Reports in a real browser: pytest tests/extended/browser, with playwright's Python package and Chromium."""
