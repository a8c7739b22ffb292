"""Levels above the agent: policies that pick the codes of the level below, in their own time. They act as observers."""
