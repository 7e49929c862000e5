"""The site: `.ci/docs` builds it from the pages, strictly. It needs the extra `docs`."""
