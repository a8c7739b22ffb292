"""Objects in frames: what moves together (MOREL), and things with attributes whose effects are learnt (OO-MDP)."""
