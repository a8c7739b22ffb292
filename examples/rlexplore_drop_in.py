"""A script for RLeXplore with another import: the reward module is ours, nothing else changes.

    python examples/rlexplore_drop_in.py

Flags are those that the very step returned; next_observations hold true last frames.
"""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from megareward.integration.rlexplore import Mega as RE3  # was: from rllte.xplore.reward import RE3
from megareward.integration.same_step import SameStepMini


def main(iterations: int = 50, n_envs: int = 16, n_steps: int = 32) -> float:
    envs = SameStepMini("mini-breakout", n_envs)
    irs = RE3(envs, device="cpu")
    shape, device = (n_steps, n_envs), torch.device("cpu")
    frame = envs.single_observation_space.shape
    policy = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(frame)), 64), nn.Tanh(), nn.Linear(64, 3))
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-3)
    obs, next_obs = torch.zeros(*shape, *frame, device=device), torch.zeros(*shape, *frame, device=device)
    actions, rewards, terminateds, truncateds = (torch.zeros(shape, device=device) for _ in range(4))

    now, _ = envs.reset(seed=1)
    for _ in range(iterations):
        for step in range(n_steps):
            obs[step] = torch.as_tensor(now, dtype=torch.float32)
            with torch.no_grad():
                actions[step] = Categorical(logits=policy(obs[step] / 255)).sample()
            now, reward, terminated, truncated, infos = envs.step(actions[step].long().numpy())
            following = now.copy()
            for n in np.flatnonzero(terminated | truncated):
                following[n] = infos["final_obs"][n]
            next_obs[step] = torch.as_tensor(following)
            rewards[step], terminateds[step], truncateds[step] = map(torch.as_tensor, (reward, terminated, truncated))
            irs.watch(obs[step], actions[step], rewards[step], terminateds[step], truncateds[step], next_obs[step])
        samples = {
            "observations": obs,
            "actions": actions,
            "rewards": rewards,
            "terminateds": terminateds,
            "truncateds": truncateds,
            "next_observations": next_obs,
        }
        intrinsic = irs.compute(samples)  # and learns, as there; sync=False would not
        returns, later = torch.zeros(shape), torch.zeros(n_envs)
        for t in reversed(range(n_steps)):  # the reward is in before anything is made of it
            later = returns[t] = intrinsic[t] + 0.99 * later * (1 - terminateds[t]) * (1 - truncateds[t])
        chosen = Categorical(logits=policy(obs.flatten(0, 1) / 255)).log_prob(actions.flatten())
        loss = -(chosen * (returns - returns.mean()).flatten()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return float(intrinsic.mean())


if __name__ == "__main__":
    print(f"{main():.3f} of mega-reward per step in the last rollout")
