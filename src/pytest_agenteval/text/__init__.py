"""What lies below everything: errors, JSON and its forms, patterns, and what must not be read."""
