"""Models that run on this machine: in this process, or served by a process of the run's own."""
