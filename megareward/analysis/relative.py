"""Scores on the scale from random play to something else: Eq. 12, 13 and 14, in percent.

0 is random play, 100 is as good as the benchmark. If the benchmark is no better than random play, the scale is
undefined and the result is None.
"""


def relative_score(score: float, benchmark: float, random: float) -> float | None:
    """Eq. (12): (S_Mega-reward - S_Random) / (S_Benchmark - S_Random), against Ex-PPO or a human player."""
    return _percent(score, benchmark, random)


def improvement(pretrained: float, scratch: float, random: float) -> float | None:
    """Eq. (13): (S_Pretrain - S_Random) / (S_Scratch - S_Random). Above 100, pretraining was worth it. None if
    training from scratch is no better than random play."""
    return _percent(pretrained, scratch, random)


def relative_ablation(ablated: float, original: float, random: float) -> float | None:
    """Eq. (14): (ablation score - random score) / (original mega-reward score - random score)."""
    return _percent(ablated, original, random)


def _percent(score: float, benchmark: float, random: float) -> float | None:
    return 100 * (score - random) / (benchmark - random) if benchmark > random else None
