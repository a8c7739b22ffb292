"""Running statistics and intervals, each in one place."""
