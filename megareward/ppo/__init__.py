"""Proximal policy optimisation with reward streams. It never learns whether a reward is intrinsic."""
