"""Ko-AgentBench: Korean tool-calling in seven dimensions."""
