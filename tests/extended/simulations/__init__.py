"""Simulates what the statistics promise where the truth is known: ``tests.extended.simulations [NAME …]``.

A simulation is a module of this folder with ``run(scale, seed)``, which gives rows of figure beside goal.
"""
