"""What a run would be, said without running anything."""
