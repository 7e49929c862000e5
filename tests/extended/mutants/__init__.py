"""Mutants: faults put into the package on purpose, to see which of them the tests let live. Run by hand."""
