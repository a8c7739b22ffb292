"""One rule for death, the same for every method: where returns end, and what mega-reward loses there."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from megareward.control.config import LatentConfig
from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini import BreakoutConfig
from megareward.rewards import METHODS
from megareward.training.clock import Clock
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from tests.seams.small_runs import EVERY, TINY_CONTROL, assert_same, run_with_a_stop, small, whole
from tests.seams.test_flip import assert_nothing_but_the_score_changed

CPU = torch.device("cpu")
LEARNING = [name for name in EVERY if name not in ("random", "frame-change")]  # the latter is never episodic
LIVES = BreakoutConfig(lives=3, max_steps=60, life_loss_is_terminal=True)


@pytest.mark.parametrize("method", LEARNING)
@pytest.mark.parametrize("rule", [True, False])
def test_the_rule_holds_for_every_method_alike(method, rule):
    trainer = Trainer(small(method, episodic=rule), CPU)
    assert [stream.episodic for stream in trainer.rewards.streams] == [rule] * len(trainer.rewards.streams)


@pytest.mark.parametrize("method", [name for name in LEARNING if hasattr(METHODS[name].config(), "episodic")])
def test_an_exception_must_be_asked_for(method):
    reward = replace(METHODS[method].config(), episodic="no")
    trainer = Trainer(small(method, reward=reward), CPU)
    assert [stream.episodic for stream in trainer.rewards.streams] == [False]


def rollouts(config: TrainConfig, n: int):
    """Random play; (g, terminated, first, raw reward of mega) of n rollouts, joined over time: (frames, N, ...)."""
    trainer = Trainer(config, CPU)
    trainer.begin()
    g, flags, rewards = [], [], []
    for _ in range(n):
        trainer.collector.collect(Clock(), random=True)
        recorded = trainer.rollout.recorded()
        g.append(trainer.rollout.fields["g"][:-1].clone())
        flags.append(trainer.rollout.flags[:-1].clone())
        rewards.append(trainer.rewards.compute(recorded)[0])
        trainer.rollout.roll()
    trainer.env.close()
    return torch.cat(g), torch.cat(flags), torch.cat(rewards)


def literal(**changes):
    """Eq. 10-11 as printed, so that what is gained and lost adds up; untrained models."""
    latent = LatentConfig(combine="sum", hold=False, clip=False, above_chance=False, background=1.0, flash=1.0, rho=0.9)
    return small("mega", control=replace(TINY_CONTROL, latent=latent), g_channel="no", **changes)


@pytest.mark.parametrize(
    "world",
    [
        {"game": "mini-breakout", "env": LIVES},
        *({"game": name, "env": AtariConfig(threads=1)} for name in ("asterix", "kung_fu_master", "breakout")),
    ],
    ids=lambda world: world["game"],
)
def test_a_life_takes_all_its_control_with_it_once_and_the_next_begins_with_none(world):
    config = literal(**world, n_envs=2, rollout_steps=40, frames=10**6)
    g, flags, rewards = rollouts(config, 18 if world["game"] != "mini-breakout" else 4)
    first, terminated = flags[..., 0], flags[..., 1]
    assert terminated[:-1].any()
    assert torch.equal(first[1:][terminated[:-1]], torch.ones_like(first[1:][terminated[:-1]]))
    assert not g[first].any()
    # The transition into frame t + 1 ends a life: it costs exactly what was under control at frame t.
    ends = terminated[1:]
    lost = g[:-1].sum(-1)[ends]
    torch.testing.assert_close(rewards[:-1][ends], -lost)
    # So over every whole life gains and the charge add up to nothing: nobody is charged for what another life had.
    for n in range(g.shape[1]):
        starts = first[:, n].nonzero().flatten().tolist()
        for begin, following in pairwise(starts):
            if terminated[following - 1, n]:
                assert abs(float(rewards[begin : following - 1, n].sum())) < 1e-3


def test_where_nothing_ends_nothing_is_charged():
    g, flags, rewards = rollouts(literal(game="mini-breakout", env=LIVES, episodic=False), 4)
    ends = flags[1:, :, 1]
    assert ends.any()
    torch.testing.assert_close(rewards[:-1][ends], (g[1:].sum(-1) - g[:-1].sum(-1))[ends])


@pytest.mark.parametrize("method", ["mega", "alive", "mega-direct", "mega-count", "rnd", "emp", "sto", "div"])
def test_a_run_in_which_nothing_ends_is_flipped_stopped_and_resumed_like_the_others(method, tmp_path):
    config = small(method, episodic=False)
    assert_nothing_but_the_score_changed(config, tmp_path)
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "stopped", 29, "power cut"))


def test_without_latent_control_no_cell_takes_over_control_from_another():
    """Eq. 10 on direct control alone: what a cell has is what it was given itself, discounted."""
    trainer = Trainer(replace(literal(), method="mega-direct", reward=None), CPU)
    assert trainer.config.control.latent.relation == "itself"
    trainer.begin()
    trainer.collector.collect(Clock(), random=True)
    direct, g = trainer.rollout.fields["direct"], trainer.rollout.fields["g"]
    first = trainer.rollout.first
    for t in range(1, len(g)):
        expected = torch.where(first[t][:, None], torch.zeros_like(g[t]), 0.9 * g[t - 1] + direct[t])
        torch.testing.assert_close(g[t], expected)
    assert g.any()
