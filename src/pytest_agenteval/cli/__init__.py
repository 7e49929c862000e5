"""The command line: verbs that run neither agent nor judge."""
