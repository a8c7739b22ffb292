"""Stable-Baselines3 on an Atari game, by mega-reward alone. The score is painted out of the frames. Wants a GPU.

python examples/sb3_atari.py breakout
"""

import sys

import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.utils import get_device
from stable_baselines3.common.vec_env import VecMonitor

import megareward
from megareward.integration.stable_baselines3 import (
    ControlChannel,
    HideScore,
    IntrinsicRewardCallback,
    VectorAsVecEnv,
)


def main(
    game: str = "pong", steps: int = 10_000_000, n_envs: int = 8, rollout: int = 128, device: str = "auto", **options
) -> list[float]:
    """`options` go to `make`."""
    games = AtariVectorEnv(game, n_envs, autoreset_mode=AutoresetMode.SAME_STEP, reward_clipping=False)
    envs = HideScore(VecMonitor(VectorAsVecEnv(games)), game)  # (4, 84, 84) stacks
    device = get_device(device)
    reward = megareward.make("mega", envs.observation_space, envs.action_space, n_envs, device=device, **options)
    envs = ControlChannel(envs, reward)  # (5, 84, 84): g is the last channel
    settings = {"n_steps": rollout, "batch_size": n_envs * rollout // 4, "n_epochs": 4, "ent_coef": 0.01}
    model = PPO("CnnPolicy", envs, learning_rate=2.5e-4, clip_range=0.1, **settings, device=device, verbose=1)
    model.learn(steps, callback=IntrinsicRewardCallback(reward, warmup_steps=614_400))
    return [float(episode["r"]) for episode in model.ep_info_buffer]


if __name__ == "__main__":
    scores = main(*sys.argv[1:])
    print(f"{np.mean(scores):.1f} points per game, mean of the last {len(scores)} games")
