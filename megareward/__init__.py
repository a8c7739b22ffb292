"""megareward: agents that learn to play by seeking control."""

__version__ = "0.1.0"
