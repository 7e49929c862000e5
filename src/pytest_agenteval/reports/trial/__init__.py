"""One trial as every report sees it."""
