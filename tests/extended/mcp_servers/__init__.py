"""Real MCP servers of several makers, asked through several versions of the package: a command of its own."""
