"""Skills in an empty room end in different places: what Sto and Div promise, where the answer is known.

Six codes can tell at most ln 6 = 1.79 nats about the place; codes of an untrained policy tell nothing (what little is
measured of them is the bias of counting 81 cells in 2048 games).
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from megareward.envs.games import register, unregister
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.rewards.settings import DivConfig, StoConfig
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from megareward.training.saving import tensors_of
from tests.learning import room

pytestmark = pytest.mark.learning

K, CPU = 6, torch.device("cpu")
PPO = PPOConfig(minibatches=4, epochs=3, learning_rate=1e-3, clip=0.2, learning_rate_decays=False, clip_decays=False)


@pytest.fixture(autouse=True)
def the_room() -> Iterator[None]:
    register(room.ROW)
    yield
    unregister(room.ROW.name)


def trained(method: str, reward: Any, steps: int, iterations: int) -> tuple[float, Trainer]:
    """The information of an untrained policy's codes after `steps` steps, and a trained run."""
    N, T = 32, 63
    config = TrainConfig(
        method=method,
        game="room",
        frames=N * T * iterations,
        device="cpu",
        n_envs=N,
        rollout_steps=T,
        warmup_steps=0,
        ppo=PPO,
        policy=PolicyConfig(stack=1),
        env=room.RoomConfig(steps=steps + 1),
        reward=reward,
    )
    trainer = Trainer(config, CPU)
    trainer.begin()
    before = room.information(*room.ends(config, tensors_of(trainer), steps))
    while trainer.iteration < iterations:
        trainer.iterate()
    return before, trainer


@pytest.mark.parametrize("information", ["discriminator", "counts"])
def test_stochastic_skills_end_in_different_places(information):
    reward = StoConfig(n_skills=K, information=information, learning_rate=1e-3)
    before, trainer = trained("sto", reward, steps=16, iterations=20)
    assert before < 0.12
    assert room.information(*room.ends(trainer.config, tensors_of(trainer), 16)) >= 1.0


@pytest.mark.parametrize("distance", ["mass-centre", "l2"])
def test_diverse_skills_end_in_different_places_each_apart_from_every_other(distance):
    reward = DivConfig(n_skills=K, holds=(8,), distance=distance, learning_rate=1e-3)
    before, trainer = trained("div", reward, steps=8, iterations=45)
    assert before < 0.12
    ends = room.ends(trainer.config, tensors_of(trainer), 8)
    assert room.information(*ends) >= 1.0
    places = room.means(*ends)  # (K, 2) in cells
    apart = torch.cdist(places, places) + 99 * torch.eye(K)
    assert apart.min() >= 1.0
