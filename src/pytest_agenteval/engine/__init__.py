"""Runs trials: takes plans and returns trials. It knows neither pytest nor the store."""
