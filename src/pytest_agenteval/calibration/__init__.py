"""Calibration: how far judges agree with labels, and with themselves."""
