"""From task files to planned trials: what is wrong with a file is known before anything runs."""
