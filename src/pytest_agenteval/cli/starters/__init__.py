"""First suites: what ``agenteval init`` writes, and where."""
