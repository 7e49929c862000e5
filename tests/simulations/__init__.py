"""What the statistics promise, simulated where the truth is known: python -m tests.simulations [NAME …].

A simulation is a module of this folder with ``run(scale, seed)``, which gives rows of figure beside goal, or
such a module named simulations.py among a benchmark's tests.
"""
