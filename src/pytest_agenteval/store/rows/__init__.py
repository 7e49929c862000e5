"""A stored run as flat rows for tables of any kind: one for each run, trial, grade, call and message."""
