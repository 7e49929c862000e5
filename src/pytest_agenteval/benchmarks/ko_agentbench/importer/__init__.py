"""Ko-AgentBench: a user's clone becomes a suite, cassettes and runs of ours."""
