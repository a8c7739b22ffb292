"""Control models small enough to learn in a moment, and what they are shown: noise."""

import torch
from torch import Tensor

from megareward.control.config import AdmConfig, ControlConfig, LatentConfig, RtmConfig
from megareward.control.learning.learner import ControlLearner
from megareward.control.models import ControlModels

T, N, A, PX_H, PX_W = 5, 4, 3, 16, 24
SMALL = ControlConfig(
    H=2,
    W=3,
    adm=AdmConfig(channels=2, features=6, hidden=5),
    rtm=RtmConfig(model="pairs", attention="sparsemax", channels=2, features=16, gamma_features=12, stack=3),
    latent=LatentConfig(flash=1.0),  # these screens are noise, so every step would be one
    batch=8,
)
NONE_FIRST = torch.zeros(N, dtype=torch.bool)


def models(config: ControlConfig = SMALL, seed: int = 0) -> ControlModels:
    return ControlModels(config, (PX_H, PX_W), A, seed=seed)


def learner(config: ControlConfig = SMALL, seed: int = 0) -> ControlLearner:
    return ControlLearner(models(config, seed), seed)


def rollout(seed: int, P: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    L = P + T + 1
    frames = torch.randint(256, (L, N, PX_H, PX_W), dtype=torch.uint8, generator=generator)
    actions = torch.randint(A, (T, N), generator=generator)
    first = torch.rand(L, N, generator=generator) < 0.2
    return frames, actions, first


def stacks(T: int, seed: int = 0) -> Tensor:
    return torch.randint(256, (T, N, 3, PX_H, PX_W), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}
