"""Tools of MCP servers, and a trial's own tools offered over MCP."""
