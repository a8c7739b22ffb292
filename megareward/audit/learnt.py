"""Maps of learnt control models over recorded episodes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from megareward.audit.maps import Maps
from megareward.audit.truth import Truth
from megareward.control.latent import chain
from megareward.control.models import Attention, ControlModels
from megareward.envs.mini.hashed_rng import environment_keys
from megareward.envs.noise import Noise
from megareward.envs.noise_config import NoiseConfig
from megareward.observers.tracker import ControlTracker
from megareward.stacking import stack_times
from megareward.types import Float, Tensor


@dataclass(frozen=True)
class LearntMaps:
    """The maps of one episode, indexed by the frame they are about; all zero at frame 0."""

    direct: Float[Tensor, "T_plus_1 HW"]
    relation: Float[Tensor, "T_plus_1 HW HW"]
    g: Float[Tensor, "T_plus_1 HW"]
    mega_reward: Float[Tensor, "T_plus_1"]

    def influence(self, lags: int) -> Float[Tensor, "T_plus_1 L HW"]:
        """Eq. 5 applied n - 1 times: how the action n steps before frame t controls it, at [t, n - 1]."""
        chained = torch.zeros(len(self.direct), lags, self.direct.shape[1])
        chained[:, 0] = self.direct
        for t in range(1, len(self.direct)):
            chained[t, 1:] = chained[t - 1, :-1] @ self.relation[t].T
        return chained

    def handed_on(self) -> Float[Tensor, "T_plus_1 HW"]:
        """Eq. 5 applied to g: what each cell takes over from the frame before. This part of g comes from the models;
        the rest comes from rules, by which a cell keeps or forgets what it had."""
        return torch.cat([torch.zeros_like(self.g[:1]), chain(self.relation[1:], self.g[:-1])])

    def to_score(self, lags: int) -> Maps:
        return Maps(self.direct, self.g, self.handed_on(), self.influence(lags), self.relation)


def as_seen(truth: Truth, noise: NoiseConfig) -> Truth:
    """The recorded episodes with the noise of a run, as its models and its policy see them. The truth, and the upper
    limit of what can be seen, are those of the game without noise."""
    if not noise.on:
        return truth
    cpu = torch.device("cpu")
    screen = Noise(noise, truth.frame_shape, cpu)
    episodes = []
    for key, episode in zip(
        environment_keys(truth.about["seed"], len(truth.episodes), cpu), truth.episodes, strict=True
    ):
        clock = torch.arange(len(episode.frames))
        frames = screen.over(episode.frames, key.expand_as(clock), clock, torch.zeros_like(clock, dtype=torch.bool))
        episodes.append(replace(episode, frames=frames))
    return replace(truth, episodes=episodes)


def learnt_maps(models: ControlModels, truth: Truth, seed: int = 0) -> list[LearntMaps]:
    """The maps that the tracker makes of the models' attention, in every recorded episode."""
    return followed(models, attended(models, truth, seed), truth)


BATCH = 32
"""Steps that the models process in one batch."""


def attended(models: ControlModels, truth: Truth, seed: int = 0) -> list[Attention]:
    """Eq. 3 and Eq. 8 of each episode, over its T + 1 frames; no action has led to the first. Attention does
    not depend on earlier attention, so many steps are computed in one batch."""
    noise, device, K = torch.Generator(models.device).manual_seed(seed), models.device, models.config.rtm.stack
    longest = max(len(episode.frames) for episode in truth.episodes)
    anchors = [models.anchor(len(truth.episodes), noise) for _ in range(longest)]  # as the tracker draws them
    found = []
    for n, episode in enumerate(truth.episodes):
        parts = []
        for t in torch.arange(len(episode.frames)).split(BATCH):
            before = (t - 1).clamp(min=0)
            stack = episode.frames[stack_times(before, before, K)].to(device)
            actions, now = episode.actions[before].to(device), episode.frames[t].to(device)
            own = [anchor[n] for anchor in anchors[t[0] : t[-1] + 1] if anchor is not None]
            parts.append(models.attend(stack, actions, now, torch.stack(own) if own else None))
        found.append(Attention(*map(torch.cat, zip(*parts, strict=True))))
    return found


def followed(models: ControlModels, attention: list[Attention], truth: Truth) -> list[LearntMaps]:
    """Run the tracker's rules over all recorded episodes in parallel."""
    frames, K = [episode.frames.to(models.device) for episode in truth.episodes], models.config.rtm.stack
    lengths, rows = [len(own) for own in frames], torch.arange(len(frames), device=models.device)
    tracker = ControlTracker(models, len(frames))

    def at(times: Tensor, of_episodes: Iterable[Tensor]) -> Tensor:
        return torch.stack([own[time] for own, time in zip(of_episodes, times, strict=True)])

    maps = []
    for t in range(max(lengths)):
        # An episode that is over shows its last frame until the longest has ended; nobody looks at that.
        now = torch.tensor([min(t, length - 1) for length in lengths])
        direct, relation = (at(now, parts) for parts in zip(*attention, strict=True))
        first = torch.full_like(rows, t == 0, dtype=torch.bool)
        control = tracker.follow(Attention(direct, relation), at(stack_times(now, now, K), frames), first, rows)
        assert control.relation is not None
        maps.append([control.direct, control.relation, control.g, control.mega_reward])
    series = [torch.stack(parts).cpu() for parts in zip(*maps, strict=True)]  # (T + 1, N, ...) each
    return [LearntMaps(*(part[:length, n] for part in series)) for n, length in enumerate(lengths)]
