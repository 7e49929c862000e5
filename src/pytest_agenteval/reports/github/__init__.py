"""What a run says in GitHub: annotations, a comment, and that nothing else is a command of its runner."""
