"""What carries trials out on a cluster, as far as it needs none."""
