"""Stable-Baselines3: PPO learns mini-pong by mega-reward and never sees the score. Ten minutes on one core.

python examples/sb3_mini_pong.py
"""

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecFrameStack, VecMonitor
from torch import Tensor, nn

import megareward
from megareward.integration.same_step import SameStepMini
from megareward.integration.stable_baselines3 import ControlChannel, IntrinsicRewardCallback, VectorAsVecEnv


class SmallCnn(BaseFeaturesExtractor):
    """For frames of 32 pixels, which are too small for SB3's own network; that of our own training."""

    def __init__(self, observation_space, features_dim: int = 128) -> None:
        super().__init__(observation_space, features_dim)
        convolutions = (nn.Conv2d(observation_space.shape[0], 16, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU())
        self.layers = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(32 * 7 * 7, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations)


def main(steps: int = 200_000, n_envs: int = 32, rollout: int = 64, warmup: int = 20_000, seed: int = 0) -> list[float]:
    envs = VecMonitor(VectorAsVecEnv(SameStepMini("mini-pong", n_envs)))  # the monitor notes the score, for us only
    envs = VecFrameStack(envs, 4, channels_order="first")
    reward = megareward.make("mega", envs.observation_space, envs.action_space, n_envs, seed=seed)
    envs = ControlChannel(envs, reward)  # the policy sees g beside the frames
    callback = IntrinsicRewardCallback(reward, warmup_steps=warmup)
    settings = {"n_steps": rollout, "batch_size": n_envs * rollout // 8, "n_epochs": 3, "ent_coef": 0.01}
    schedules = {"learning_rate": lambda left: 1e-3 * left, "clip_range": 0.2, "vf_coef": 0.25}
    network = {"features_extractor_class": SmallCnn, "net_arch": []}
    model = PPO("CnnPolicy", envs, **settings, **schedules, policy_kwargs=network, seed=seed, device="cpu")
    model.learn(steps, callback=callback)
    return [float(episode["r"]) for episode in model.ep_info_buffer]


if __name__ == "__main__":
    scores = main()
    print(f"{np.mean(scores):.2f} points per game, mean of the last {len(scores)} games (from -5 to 5)")
