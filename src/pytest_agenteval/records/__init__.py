"""What happened, as frozen values: transcripts, grades, outcomes, trials."""
