"""The tree a trial works in: made fresh, walled in, looked at before and after."""
