"""Tools of servers that speak MCP, taped as whole calls; and a trial's own tools, offered over MCP."""
