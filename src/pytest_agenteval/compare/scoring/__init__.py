"""From grades to figures: trial scores, repetitions, intervals. Pure functions on plain numbers."""
