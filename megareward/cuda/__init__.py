"""What only a GPU needs: captured graphs and two streams. On a CPU the same calls do the same work at once."""
