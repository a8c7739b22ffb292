"""Recorded runs, published numbers, tables and figures. Needs no torch."""
