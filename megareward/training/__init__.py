"""Runs: the one outer loop, the rollout, checkpoints, logs and evaluation."""
