"""Branching a game to see what an action changes: the ground truth of control."""
