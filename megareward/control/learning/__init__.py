"""How the control models are trained: replay, updates, and when they happen."""
