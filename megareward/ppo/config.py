"""Settings of PPO and of its network. Free of torch, so that the command line starts fast."""

from dataclasses import dataclass
from typing import Literal

from megareward.errors import UsageError


@dataclass(frozen=True)
class PPOConfig:
    """Hyper-parameters of PPO. Defaults: the Atari settings of the PPO paper's reference code and of the authors', but
    with a constant clip; `--preset paper` has the published settings, `--preset released` the authors'."""

    epochs: int = 4
    """Passes over each rollout (the PPO paper's table says 3; its code and the authors' say 4)."""
    minibatches: int = 4
    """Parts a rollout is split into; one gradient step each."""
    learning_rate: float = 2.5e-4
    """Adam's, at the start."""
    learning_rate_decays: bool = True
    """Linearly to 0 at the end of training."""
    adam_eps: float = 1e-5
    clip: float = 0.1
    """Of the probability ratio, and of the value's change."""
    clip_decays: bool = False
    """Linearly to 0 at the end of training (the PPO paper, the authors' code; newer PPO code keeps it constant)."""
    gae_lambda: float = 0.95
    entropy_weight: float = 0.01
    value_weight: float = 0.5
    """Of half the squared error (the PPO paper: 1 of all of it, which is 2 here; the authors' code: 0.5)."""
    clip_value: bool = True
    """Take the worse of the clipped and the unclipped value loss."""
    max_grad_norm: float = 0.5
    normalise_advantages: Literal["minibatch", "rollout", "never"] = "minibatch"
    """To mean 0 and std 1, over which set."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the network's arithmetic; weights, losses and Adam stay float32. A CPU without instructions for bfloat16
    (AVX512-BF16 or AMX) uses float32."""
    cuda_graphs: bool = True
    """Capture acting and gradient steps as CUDA graphs. The numbers are the same; small networks run several times
    faster. The CPU has none."""

    def __post_init__(self) -> None:
        for field in ("epochs", "minibatches"):
            if getattr(self, field) < 1:
                raise UsageError(f"ppo.{field} is {getattr(self, field)}; it must be at least 1.")
        for field in ("learning_rate", "clip", "max_grad_norm"):
            if not getattr(self, field) > 0:
                raise UsageError(f"ppo.{field} is {getattr(self, field)}; it must be above 0.")
        if self.learning_rate > 1:
            raise UsageError(f"ppo.learning_rate is {self.learning_rate}; use a rate in (0, 1], such as 2.5e-4.")
        if not 0.0 <= self.gae_lambda <= 1.0:
            raise UsageError(f"ppo.gae_lambda is {self.gae_lambda}; it must lie in [0, 1].")


@dataclass(frozen=True)
class PolicyConfig:
    """The actor-critic network."""

    trunk: Literal["auto", "nature", "nature-32", "small"] = "auto"
    """nature: convolutions 32, 64, 64 and 512 units (Mnih 2015). nature-32: the third has 32 (the authors' code).
    small: 16 and 32 and 128 units, for mini games. auto: nature from 64 pixels upwards, small below."""
    stack: int = 4
    """Frames the policy sees at once, newest last."""
    padding: Literal["repeat", "zeros"] = "repeat"
    """What a stack shows before an episode's first frame: that frame again, or black (the authors' code)."""
    normalise: Literal["fixed", "pixel"] = "fixed"
    """fixed: frame / 255. pixel: (frame - mean of each pixel) / one standard deviation (the authors' code)."""
    normalise_frames: int = 10_000
    """The first frames, from which the statistics of `pixel` are taken; fixed afterwards (the authors' code: about
    10,000 of random play)."""

    def __post_init__(self) -> None:
        for field in ("stack", "normalise_frames"):
            if getattr(self, field) < 1:
                raise UsageError(f"policy.{field} is {getattr(self, field)}; it must be at least 1.")
