"""Runs: the one outer loop, the collectors, presets, logs and evaluation."""
