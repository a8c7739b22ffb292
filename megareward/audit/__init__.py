"""What an action truly controls, found by branching the game; and how learnt control maps compare with it."""
