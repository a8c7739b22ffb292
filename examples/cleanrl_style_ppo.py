"""One file, one loop: PPO in CleanRL's manner on mini-pong, paid by a reward of your choice.

    python examples/cleanrl_style_ppo.py mega

The lines that concern the reward are marked with ###.
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import megareward
from megareward.integration.same_step import SameStepMini

DISCOUNT, LAMBDA, CLIP, EPOCHS, MINIBATCHES = 0.99, 0.95, 0.2, 3, 8


def main(method: str = "mega", iterations: int = 100, n_envs: int = 32, T: int = 64, seed: int = 0) -> list[float]:
    torch.manual_seed(seed)
    envs = SameStepMini("mini-pong", n_envs)
    reward = megareward.make(method, envs.single_observation_space, envs.single_action_space, n_envs, seed=seed)  ###
    trunk = (nn.Conv2d(1, 16, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 128))
    agent = nn.Sequential(*trunk, nn.ReLU(), nn.Linear(128, envs.single_action_space.n + 1))  # logits and a value
    optimiser = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)

    def evaluate(observations):
        out = agent(observations.float() / 255)
        return Categorical(logits=out[:, :-1]), out[:, -1]

    observations, _ = envs.reset(seed=seed)
    score, scores = np.zeros(n_envs), list[float]()
    for _ in range(iterations):
        obs, actions, logprobs, values, rest, dones = [], [], [], [], [], []
        for _ in range(T):
            with torch.no_grad():
                policy, value = evaluate(torch.from_numpy(observations))
                action = policy.sample()
            following, game_rewards, terminated, truncated, infos = envs.step(action.numpy())
            done, true_following = terminated | truncated, following.copy()
            for n in np.flatnonzero(done):
                true_following[n] = infos["final_obs"][n]  ### the last frame of the episode, not the first of the next
            reward.watch(observations, action, game_rewards, terminated, truncated, true_following)  ###
            # A time limit is not the end of the game: what it cut off is worth the value of the last frame.
            with torch.no_grad():
                rest.append(DISCOUNT * evaluate(torch.from_numpy(true_following))[1] * torch.from_numpy(truncated))
            for store, new in zip((obs, actions, logprobs, values), (observations, action, 0, value), strict=True):
                store.append(torch.as_tensor(new))
            logprobs[-1], observations = policy.log_prob(action), following
            dones.append(torch.from_numpy(done))
            score += game_rewards
            scores += score[done].tolist()
            score[done] = 0
        paid = reward.compute() + torch.stack(rest)  ### (T, N), before the advantages
        with torch.no_grad():
            future, advantages = evaluate(torch.from_numpy(observations))[1], torch.zeros(T + 1, n_envs)
        for t in reversed(range(T)):
            goes_on = ~dones[t]
            error = paid[t] + DISCOUNT * (values[t + 1] if t + 1 < T else future) * goes_on - values[t]
            advantages[t] = error + DISCOUNT * LAMBDA * goes_on * advantages[t + 1]
        reward.update()  ### the reward's own models learn
        flat = [torch.stack(x).flatten(0, 1) for x in (obs, actions, logprobs, values)]
        gain, returns = advantages[:-1].flatten(), advantages[:-1].flatten() + flat[3]
        for part in (p for _ in range(EPOCHS) for p in torch.randperm(T * n_envs).chunk(MINIBATCHES)):
            policy, value = evaluate(flat[0][part])
            ratio = (policy.log_prob(flat[1][part]) - flat[2][part]).exp()
            good = (gain[part] - gain[part].mean()) / (gain[part].std() + 1e-8)
            loss = -torch.minimum(ratio * good, ratio.clamp(1 - CLIP, 1 + CLIP) * good).mean()
            loss = loss + 0.25 * (value - returns[part]).square().mean() - 0.01 * policy.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()
    return scores


if __name__ == "__main__":
    scores = main(*sys.argv[1:2])
    print(f"{np.mean(scores[-50:]):.2f} points per game, mean of the last {len(scores[-50:])} games (from -5 to 5)")
