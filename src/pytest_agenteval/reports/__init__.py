"""A stored run as people and machines read it: one view, several ways to show it. Runs nothing."""
