"""What a run leaves on disk: its folder, checkpoints, provenance and, when it is over, its record."""
