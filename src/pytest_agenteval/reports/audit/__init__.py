"""What an audited run shows of tasks and their graders."""
