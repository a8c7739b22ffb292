"""Measurements of speed; `megareward bench` is their command."""
