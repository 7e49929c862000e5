"""The Korean benchmark's published data, imported, run and reported: ``.ci/published`` runs these tests."""
