"""A suite over its stored runs: scores from the oldest to the newest, and tasks that are suspect."""
