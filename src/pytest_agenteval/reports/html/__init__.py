"""Pages: self-contained HTML files, made of what a run's folder holds."""
