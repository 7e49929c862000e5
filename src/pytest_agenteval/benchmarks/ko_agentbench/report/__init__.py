"""A run in the shape in which Ko-AgentBench reports its own: JSON, CSV and Markdown for each model."""
