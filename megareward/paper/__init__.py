"""Every table and figure of the paper: which runs they need, what is missing, and the page made of what is recorded."""
