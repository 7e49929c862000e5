"""Recordings of tools and models in vcrpy's file format, and their replay."""
