"""Settings of each method. Free of torch, so that `megareward train METHOD --help` answers at once."""

import itertools
import operator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from megareward.errors import UsageError
from megareward.reward_stream import RewardStream


def _require(holds: bool, name: str, value: object, remedy: str) -> None:
    if not holds:
        raise UsageError(f"--reward.{name} is {value}; {remedy}.")


Episodic = Literal["rule", "yes", "no"]
"""Whether an end of the game ends the return. rule: as `--episodic` says for all methods. An exception is shown beside
the method's name in every table."""


@dataclass(frozen=True)
class NoSettings:
    """A method with nothing to set."""


class OneStream:
    """A method with one reward, whose settings say how it enters the return."""

    discount: float
    episodic: Episodic
    normalise: bool

    def stream(self, name: str, rule: bool) -> RewardStream:
        """`rule`: whether returns end where the game does, for all methods alike (`World.episodic`)."""
        episodic = {"rule": rule, "yes": True, "no": False}[self.episodic]
        return RewardStream(name, self.discount, episodic, normalise=self.normalise)


@dataclass(frozen=True)
class ExtrinsicConfig:
    """PPO on the game's own score."""

    clip: Literal["sign", "none"] = "sign"
    """sign: every reward becomes -1, 0 or 1 (Mnih 2015; R15). none: the raw score."""
    discount: float = 0.99
    """Per agent step."""


@dataclass(frozen=True)
class ScoreConfig:
    """The game's score as a second reward beside the method's own (--with-score). Defaults: RND's paper."""

    weight: float = 2.0
    """Factor of the score's advantage."""
    intrinsic_weight: float = 1.0
    """Factor of the advantage of the method's own reward."""
    discount: float = 0.999
    """Of the score, per agent step; the method's own is --reward.discount."""
    clip: Literal["sign", "none"] = "sign"
    """sign: every reward becomes -1, 0 or 1. none: the raw score."""

    def __post_init__(self) -> None:
        for name in ("weight", "intrinsic_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"--score.{name.replace('_', '-')} is {getattr(self, name)}; use 0 or more.")
        if not 0 <= self.discount <= 1:
            raise UsageError(f"--score.discount is {self.discount}; it must lie in [0, 1].")


@dataclass(frozen=True)
class AliveConfig(OneStream):
    """Survival only: -1 at every end, and nothing else. The baseline of all rewards whose return ends with the game."""

    discount: float = 0.99
    """Per agent step (PPO's)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return."""


@dataclass(frozen=True)
class MegaConfig(OneStream):
    """Mega-reward. The form of g and of Eq. 11 is set with the control models (--control.latent.*)."""

    bonus: Literal["growth", "count"] = "growth"
    """The reward made of g. growth: Eq. 11 (paper). count: a count bonus on g (the released code's own command; the
    method mega-count always uses this)."""
    discount: float = 0.99
    """Per agent step (paper: PPO's)."""
    end_takes_all: bool = True
    """Eq. 11 across the end of an episode: nothing is under control any more, so the reward is minus all of g. Only
    where ends count (--episodic), and only for `growth`. Paper: not stated. Released code: no."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return (paper: not stated; the authors' code divides by the std)."""


@dataclass(frozen=True)
class DirConfig(OneStream):
    """Direct control only: the paper's Dir, in a form that carries information. See docs/methods.md."""

    form: Literal["positive", "count"] = "positive"
    """[dir-1] positive: the positive part of each cell's change, summed. count: 1 / sqrt(visits of the most attended
    cell). Paper: the plain sum of changes, which is always 0."""
    discount: float = 0.99
    """Per agent step (paper: PPO's)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return."""


@dataclass(frozen=True)
class RndConfig(OneStream):
    """Random network distillation (Burda et al. 2018b)."""

    learning_rate: float = 1e-4
    """Of the predictor's Adam (source)."""
    epochs: int = 4
    """Passes over each rollout (source)."""
    minibatches: int = 4
    """Gradient steps per pass (source)."""
    update_fraction: float | None = None
    """Share of a rollout's frames that a pass learns from. None: 32 / environments, at most 1 (source), so that more
    environments do not make novelty wear off faster."""
    discount: float = 0.99
    """Per agent step (source)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return (source)."""

    name: ClassVar[str] = "rnd"
    mask: ClassVar[str] = "none"
    """The recorded map used as the mask: the networks see nothing outside it. A further mask is a class like the two
    below and a row of the table, which names the observer that records the field."""
    masks_pixels: ClassVar[bool] = False
    """Whether that map has one value for each pixel; otherwise one for each cell of the control maps."""
    masks_by_mean: ClassVar[bool] = True
    """Whether cells above their own running mean are seen; otherwise what has moved (`rnd.LEAST_MOTION`)."""

    def __post_init__(self) -> None:
        _check_training(self.learning_rate, self.epochs, self.minibatches, self.update_fraction)


@dataclass(frozen=True)
class GRndConfig(RndConfig):
    """Random network distillation that sees only cells under control, direct or latent (paper: G-RND)."""

    name, mask = "g-rnd", "g"


@dataclass(frozen=True)
class ARndConfig(RndConfig):
    """Random network distillation that sees only cells under direct control (paper: A-RND)."""

    name, mask = "a-rnd", "direct"


@dataclass(frozen=True)
class MotionConfig:
    """Motion segmentation (MOREL, Goel et al. 2018): masks of what moves, learnt from frames alone."""

    n_masks: int = 20
    """K: masks, each with a translation (source)."""
    channels: int | None = None
    """Features of each pixel before the masks. None: 24 (source), or 8 where the trunk is the small one."""
    detail: bool = True
    """[morel-3] Whether the last layer also sees the two frames: sharper masks, sooner (ours; source: no)."""
    regularisation: float = 1.0
    """Weight of mean |M_k t_k| at the end of the curriculum (source)."""
    ramp: tuple[float, float] = (0.2, 0.7)
    """[morel-6] Shares of the segmentation's training between which that weight grows from 0 (source: 0 and 0.4)."""

    def __post_init__(self) -> None:
        _require(self.n_masks >= 1, "motion.n-masks", self.n_masks, "use 1 or more")
        _require(self.channels is None or self.channels >= 1, "motion.channels", self.channels, "use 1 or more")
        _require(0 <= self.regularisation < float("inf"), "motion.regularisation", self.regularisation, "use 0 or more")
        _require(0 <= self.ramp[0] < self.ramp[1] <= 1, "motion.ramp", self.ramp, "use two growing shares in [0, 1]")

    def weight(self, done: float) -> float:
        """The regulariser's weight after this share of the training."""
        begins, ends = self.ramp
        return self.regularisation * min(1.0, max(0.0, done - begins) / (ends - begins))


@dataclass(frozen=True)
class MorelConfig(ExtrinsicConfig):
    """PPO on the score with a trunk that learns motion segmentation first, and beside it (MOREL, Goel et al. 2018)."""

    motion: MotionConfig = field(default_factory=lambda: MotionConfig(detail=False))
    auxiliary: float = 1.0
    """Weight of the segmentation's loss beside PPO's; it falls linearly to 0 at the end of training (source, where the
    policy has one trunk: within 10M steps)."""

    def __post_init__(self) -> None:
        _require(0 <= self.auxiliary < float("inf"), "auxiliary", self.auxiliary, "use 0 or more")


@dataclass(frozen=True)
class OomdpConfig(ExtrinsicConfig):
    """PPO on the score that sees objects and how actions would move its own (after OO-MDPs, Diuk et al. 2008)."""

    n_slots: int = 16
    """Objects followed at a time, the largest first (ours)."""
    background_frames: int = 10_000
    """The first frames, whose median is the background; fixed afterwards. Rules learn from then on (ours)."""

    def __post_init__(self) -> None:
        _require(1 <= self.n_slots <= 64, "n-slots", self.n_slots, "use 1 to 64")
        _require(self.background_frames >= 1, "background-frames", self.background_frames, "use at least 1")


@dataclass(frozen=True)
class MRndConfig(RndConfig):
    """Random network distillation that sees only what moves by itself (paper: M-RND)."""

    motion: MotionConfig = field(default_factory=MotionConfig)
    motion_steps: int = 614_400
    """First decisions of the run, from which the segmentation learns; fixed afterwards (ours: the warm-up;
    source: 100k frames, each about 40 times)."""
    motion_learning_rate: float = 1e-4
    """Of the segmentation's Adam (source)."""
    motion_batch: int = 64
    """Pairs of frames in its gradient steps (ours; source: 16)."""
    motion_epochs: int = 1
    """Passes over each rollout (ours)."""

    name, mask, masks_pixels, masks_by_mean = "m-rnd", "masks", True, False

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(0 < self.motion_learning_rate <= 1, "motion-learning-rate", self.motion_learning_rate, "use (0, 1]")
        for name in ("motion_steps", "motion_batch", "motion_epochs"):
            _require(getattr(self, name) >= 1, name.replace("_", "-"), getattr(self, name), "use 1 or more")


@dataclass(frozen=True)
class CuriosityConfig(OneStream):
    """Prediction error of the dynamics in feature space (Burda et al. 2018a)."""

    features: Literal["random", "inverse"] = "random"
    """random: a frozen random network (source's default). inverse: trained to predict the action between two frames."""
    learning_rate: float = 1e-4
    """Of Adam (source)."""
    epochs: int = 3
    """Passes over each rollout (source)."""
    minibatches: int = 8
    """Gradient steps per pass (source)."""
    update_fraction: float = 1.0
    """Share of a rollout's transitions that a pass learns from (source: all)."""
    normalise_frames: int = 10_000
    """The first frames, from which each pixel's mean and the one std are taken; fixed afterwards (source)."""
    discount: float = 0.99
    """Per agent step (source)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return (source)."""

    def __post_init__(self) -> None:
        _check_training(self.learning_rate, self.epochs, self.minibatches, self.update_fraction)
        _require(self.normalise_frames >= 1, "normalise-frames", self.normalise_frames, "use at least 1")


@dataclass(frozen=True)
class CountConfig(OneStream):
    """Count-based novelty: phi-EB pseudo-counts (Martin et al. 2017) or SimHash (Tang et al. 2017)."""

    kind: Literal["phi-eb", "simhash"] = "phi-eb"
    """Which counts (the paper cites Martin et al.)."""
    beta: float = 0.05
    """Factor of the bonus (Martin et al.; Tang et al.: 0.01). Without effect while `normalise` is on."""
    bits: int = 64
    """simhash: length of a hash, at most 64. Fewer bits make more frames the same (Tang et al.: 16 to 512)."""
    normalise_frames: int = 10_000
    """simhash: the first frames, from which each pixel's mean is taken; fixed afterwards (ours)."""
    discount: float = 0.99
    """Per agent step (ours: PPO's)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return (ours)."""

    def __post_init__(self) -> None:
        _require(self.beta > 0, "beta", self.beta, "use a factor above 0")
        _require(1 <= self.bits <= 64, "bits", self.bits, "use 1 to 64")
        _require(self.normalise_frames >= 1, "normalise-frames", self.normalise_frames, "use at least 1")


@dataclass(frozen=True)
class EmpConfig(OneStream):
    """Empowerment: how much K actions determine the near future (Mohamed and Rezende 2015)."""

    steps: int = 4
    """K: agent steps of an action sequence (source: up to 5 in grid worlds)."""
    learning_rate: float = 1e-4
    """Of Adam (ours)."""
    epochs: int = 1
    """Passes over each rollout (ours). In a second pass the decoder memorises which of several equal ways was taken."""
    minibatches: int = 8
    """Gradient steps per pass (ours)."""
    update_fraction: float = 1.0
    """Share of a rollout's sequences that a pass learns from (ours: all)."""
    normalise_frames: int = 10_000
    """The first frames, from which each pixel's mean and the one std are taken; fixed afterwards (as in curiosity)."""
    discount: float = 0.99
    """Per agent step (ours: PPO's)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return (ours)."""

    def __post_init__(self) -> None:
        _require(self.steps >= 1, "steps", self.steps, "use at least 1")
        _check_training(self.learning_rate, self.epochs, self.minibatches, self.update_fraction)
        _require(self.normalise_frames >= 1, "normalise-frames", self.normalise_frames, "use at least 1")


@dataclass(frozen=True)
class StoConfig(OneStream):
    """Stochastic skills (SNN4HRL, Florensa et al. 2017): codes that can be recognised in frames."""

    n_skills: int = 6
    """Codes (source)."""
    hold: int = 128
    """Steps for which a code is held, unless the episode ends (ours; source: a path of 500)."""
    information: Literal["discriminator", "counts"] = "discriminator"
    """How p(code | frame) is estimated. discriminator: by a network that learns to predict the code. counts: from how
    often each code has led to such a frame in this rollout (source: to such a place)."""
    learning_rate: float = 1e-4
    """Of the discriminator's Adam (ours)."""
    epochs: int = 4
    """Passes over each rollout (ours)."""
    minibatches: int = 4
    """Gradient steps per pass (ours)."""
    discount: float = 0.99
    """Per agent step (source)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method."""
    normalise: bool = True
    """Divide by the running std of the discounted return (ours; source: times 0.05, beside another reward)."""

    def __post_init__(self) -> None:
        _check_training(self.learning_rate, self.epochs, self.minibatches, None)
        _require(self.n_skills >= 2, "n-skills", self.n_skills, "use at least 2")
        _require(self.hold >= 1, "hold", self.hold, "use at least 1")


@dataclass(frozen=True)
class StoManagerConfig(ExtrinsicConfig):
    """SNN4HRL's second phase: a manager over fixed skills, trained on the game's score, discount 0.99 per pick."""

    n_skills: int = 6
    """Codes, as many as the run of sto has."""
    hold: int = 16
    """Steps between two picks, unless the episode ends (source: 10 to 100)."""
    learning_rate: float = 2.5e-4
    """Of the manager's Adam (ours)."""

    def __post_init__(self) -> None:
        _check_training(self.learning_rate, 1, 1, None)
        _require(self.n_skills >= 2, "n-skills", self.n_skills, "use at least 2")
        _require(self.hold >= 1, "hold", self.hold, "use at least 1")


@dataclass(frozen=True)
class DivConfig(OneStream):
    """Diverse skills on several levels (DEHRL, Song et al. 2019)."""

    n_skills: int = 5
    """Codes of each level (source)."""
    holds: tuple[int, ...] = (8, 4)
    """For how many steps of its own time a code is held, level by level from below: 8 decisions of the agent, and 4
    times as long on the level above (source). One number: one level of codes."""
    distance: Literal["mass-centre", "l2"] = "mass-centre"
    """Between two changes of the frame. mass-centre: between their centres of mass (source, Atari). l2: root mean
    square over the pixels."""
    learning_rate: float = 1e-4
    """Of the predictors' Adam (source)."""
    upper_learning_rate: float = 2.5e-4
    """Of PPO on the levels above the agent (source)."""
    epochs: int = 4
    """Passes of the predictors over each rollout's blocks (source)."""
    batch: int = 64
    """Blocks of a predictor's gradient step (source)."""
    discount: float = 0.99
    """Per agent step (source)."""
    episodic: Episodic = "rule"
    """Whether an end of the game ends the return. rule: as --episodic says, the same for every method. A return ends
    with each block, whatever this says."""
    normalise: bool = True
    """Divide by the running std of the discounted return (ours)."""

    def __post_init__(self) -> None:
        _check_training(self.learning_rate, self.epochs, 1, None)
        _require(self.batch >= 1, "batch", self.batch, "use at least 1")
        _require(0 < self.upper_learning_rate <= 1, "upper-learning-rate", self.upper_learning_rate, "use (0, 1]")
        _require(self.n_skills >= 2, "n-skills", self.n_skills, "use at least 2")
        whole = bool(self.holds) and min(self.holds) >= 1
        _require(whole, "holds", self.holds, "give one number of steps, 1 or more, for each level")

    @property
    def spans(self) -> tuple[int, ...]:
        """The agent's steps for which a code of each level is held: with holds of 8 and 4, 8 and 32."""
        return tuple(itertools.accumulate(self.holds, operator.mul))


PAPERS_OWN: dict[str, dict[str, Any]] = {
    "paper": {"end_takes_all": False, "normalise": False},
    "released": {"end_takes_all": False, "bonus": "count"},
}
"""Settings of the paper's own rewards by preset; those of other papers stay as their sources have them."""


MINI: dict[str, Any] = {
    "learning_rate": 1e-3,
    "motion_steps": 60_000,
    "motion_learning_rate": 2e-3,
    "motion_batch": 32,
    "background_frames": 4_000,
}
"""Settings of any method in small worlds."""


def preset_settings(kind: type, preset: str) -> dict[str, Any]:
    """What a preset changes in settings of this kind."""
    own = PAPERS_OWN.get(preset, {}) if issubclass(kind, MegaConfig | DirConfig) else {}
    changes = MINI if preset == "mini" else own
    known = {one.name for one in fields(kind)}
    return {name: value for name, value in changes.items() if name in known}


def _check_training(learning_rate: float, epochs: int, minibatches: int, fraction: float | None) -> None:
    _require(0 < learning_rate <= 1, "learning-rate", learning_rate, "use a rate in (0, 1], such as 1e-4")
    _require(epochs >= 1, "epochs", epochs, "use at least 1")
    _require(minibatches >= 1, "minibatches", minibatches, "use at least 1")
    _require(fraction is None or 0 < fraction <= 1, "update-fraction", fraction, "use a share in (0, 1]")
