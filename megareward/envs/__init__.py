"""Batches of games: Atari through ALE, and mini games in torch. See `interface` for what a step means."""
