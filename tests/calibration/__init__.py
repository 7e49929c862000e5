"""Tests of calibrations: files of labels, scripted judges, pages."""
