"""Generalised advantage estimation over a stream of frames that contains episode ends.

Indices: frame t of T+1 frames carries first, terminated and truncated (see `envs.interface`); the transition
t -> t+1 is one of T and is real exactly if frame t+1 is not the first of an episode.
"""

import torch

from megareward.types import Bool, Float, Tensor


def real_transitions(first: Bool[Tensor, "T_plus_1 N"]) -> Bool[Tensor, "T N"]:
    """True where t -> t+1 happened inside one episode; False where a reset lies between the two frames."""
    return ~first[1:]


def gae(
    rewards: Float[Tensor, "T N"],
    values: Float[Tensor, "T_plus_1 N"],
    first: Bool[Tensor, "T_plus_1 N"],
    terminated: Bool[Tensor, "T_plus_1 N"],
    truncated: Bool[Tensor, "T_plus_1 N"],
    discount: float,
    gae_lambda: float,
    episodic: bool,
    cut: Bool[Tensor, "T_plus_1 N"] | None = None,
) -> Float[Tensor, "T N"]:
    """Advantages of the real transitions; 0 where a transition is not real.

    Episodic: termination has no future; a time limit (truncation) bootstraps from the true last frame.
    Not episodic: the future of an episode's last frame is the future of the next episode's first frame. The step
    between the two is no transition: it brings no reward, no discount and no advantage of its own.
    Either way, a return ends at the frames of `cut`: what follows does not count for what came before.
    """
    T = rewards.shape[0]
    real = real_transitions(first)
    kept = torch.ones_like(real) if cut is None else ~cut[1:]  # (T, N)
    advantages = torch.zeros_like(rewards)
    future_value = values[T]  # (N,) what the frame at t+1 is worth
    future_advantage = torch.zeros_like(rewards[0])  # (N,)
    for t in reversed(range(T)):
        if episodic:
            alive = ~terminated[t + 1] & kept[t]
            goes_on = alive & ~truncated[t + 1]
            error = rewards[t] + discount * values[t + 1] * alive - values[t]
            advantage = error + discount * gae_lambda * future_advantage * goes_on
            advantages[t] = future_advantage = advantage * real[t]
        else:
            future_value, future_advantage = future_value * kept[t], future_advantage * kept[t]
            error = rewards[t] + discount * future_value - values[t]
            advantage = error + discount * gae_lambda * future_advantage
            advantages[t] = advantage * real[t]
            future_advantage = torch.where(real[t], advantage, future_advantage)
            future_value = torch.where(real[t], values[t], future_value)
    return advantages
