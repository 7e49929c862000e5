"""The live panel: what a run is at, drawn below what pytest prints."""
