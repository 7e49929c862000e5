"""What all other rooms use: errors, JSON, patterns, and redaction of secrets."""
