"""What learnt control models say about recorded episodes."""

from dataclasses import dataclass, replace

import torch

from megareward.audit.maps import Maps
from megareward.audit.truth import Truth
from megareward.control.latent import chain
from megareward.control.models import ControlModels
from megareward.envs.mini.hashed_rng import environment_keys
from megareward.envs.noise import Noise
from megareward.envs.noise_config import NoiseConfig
from megareward.observers.tracker import ControlTracker
from megareward.stacking import pushed
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
        """Eq. 5 applied to g: what each cell takes over from the frame before. It is what the models know of g; all
        else in g is rules, which let a cell keep or forget what it had."""
        return torch.cat([torch.zeros_like(self.g[:1]), chain(self.relation[1:], self.g[:-1])])

    def to_score(self, lags: int) -> Maps:
        return Maps(self.direct, self.g, self.handed_on(), self.influence(lags), self.relation)


def as_seen(truth: Truth, noise: NoiseConfig) -> Truth:
    """The recorded episodes through the noise of a run: what its models and its policy see. What is true, and what
    can be seen of it at best, is said of the game itself."""
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
    """Run the tracker over every recorded episode, all of them side by side."""
    tracker = ControlTracker(models, len(truth.episodes), seed)
    device, K = models.device, models.config.rtm.stack
    lengths = [len(episode.frames) for episode in truth.episodes]
    stack = torch.stack([episode.frames[0] for episode in truth.episodes])[:, None].repeat(1, K, 1, 1)
    maps = []
    for t in range(max(lengths)):
        # An episode that is over shows its last frame until the longest has ended; nobody looks at that.
        newest = torch.stack([e.frames[min(t, len(e.frames) - 1)] for e in truth.episodes])
        actions = torch.stack([e.actions[min(t, len(e.actions)) - 1] for e in truth.episodes])
        first = torch.full((len(lengths),), t == 0)
        stack = pushed(stack, newest, first)
        control = tracker.step(stack.to(device), actions.to(device), first.to(device), with_relation=True)
        assert control.relation is not None
        maps.append([part.cpu() for part in (control.direct, control.relation, control.g, control.mega_reward)])
    series = [torch.stack(parts) for parts in zip(*maps, strict=True)]  # (T + 1, N, ...) each
    return [LearntMaps(*(part[:length, n] for part in series)) for n, length in enumerate(lengths)]
