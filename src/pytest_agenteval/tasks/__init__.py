"""Task and suite files: what authors write, read strictly and explained when it is wrong."""
