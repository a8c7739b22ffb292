"""Measurements of speed, as commands."""
