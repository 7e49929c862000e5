"""What a run has to reach: gates of suites, the verdict beside a baseline, broken tasks tried again."""
