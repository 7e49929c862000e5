"""Recordings of tools and models in vcrpy's file format, and the tapes that trials play them from."""
