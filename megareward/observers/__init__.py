"""What watches every new frame online and records fields about it. See `interface`."""
