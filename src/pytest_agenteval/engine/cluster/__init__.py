"""Where trials are carried out: here, or on a cluster."""
