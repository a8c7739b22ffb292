"""Experiments that audit control maps learnt from random play."""

from megareward.experiments.plans.changes import atari, both, control, models_of, only_watch
from megareward.experiments.plans.experiment import Experiment
from megareward.experiments.plans.forms import BY_INFORMATION, EARLIER, OF_THINGS, with_g
from megareward.experiments.plans.games import NOT_TUNED_ON, TUNED_ON
from megareward.ppo.config import PPOConfig

MAPS = Experiment(
    name="maps",
    question="Whose control maps are true?",
    rows={
        "default": both(EARLIER, only_watch()),
        "nothing forgets": both(EARLIER, only_watch(), control(latent={"background": 1.0, "reward": "spread"}), with_g),
        "released": only_watch(models_of("released", PPOConfig(clip_decays=True, normalise_advantages="rollout"))),
        "paper": only_watch(models_of("paper", PPOConfig(clip_decays=True), batch=256)),  # the preset now has 8
    },
    columns={name: atari(name) for name in ("pong", "breakout", "demon_attack", "freeway", "seaquest")},
    frames=1_500_000,
    seeds=1,
    is_audit=True,
)

ALL_MAPS = Experiment(
    name="all-maps",
    question="Whose control maps are true on games that nobody tuned on?",
    rows={
        "default": only_watch(),
        "information": only_watch(BY_INFORMATION),
        "things": only_watch(OF_THINGS),
        "released": MAPS.rows["released"],
        "paper": only_watch(models_of("paper", PPOConfig(clip_decays=True))),
        "paper, batches of 256": MAPS.rows["paper"],
    },
    columns={name: atari(name) for name in (*TUNED_ON, *NOT_TUNED_ON)},
    frames=100_000,
    seeds=1,
    is_audit=True,
    tuned_on=TUNED_ON,
)
"""Untrained models are in every audit. Runs are short, so that two cores make a row with relations by sight within an
hour; `released` and `paper`, which use all pairs of cells, need a GPU. They learn in batches of 8; in batches of 256,
like the default's, there are a 32nd of the gradient steps."""

ALL = (MAPS, ALL_MAPS)
