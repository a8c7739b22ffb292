"""Settings of the control models. Every deviation from the paper is a field here; docs/paper.md lists them.

This module must not import torch: the command line reads it before it knows whether anything will run.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from megareward.errors import UsageError

Attention = Literal["sparsemax", "softmax"]
Switch = Literal["auto", "on", "off"]
AnchorKind = Literal["cell", "pixel", "gauss"]
RewardForm = Literal["difference", "positive", "record", "spread", "level", "beyond", "moved"]
FORMS: tuple[RewardForm, ...] = get_args(RewardForm)
OF_PLACES: tuple[RewardForm, ...] = ("positive", "record", "spread")
"""Forms that compare each cell with its own past; they are not available for things."""


def _require(holds: bool, name: str, value: object, remedy: str) -> None:
    if not holds:
        raise UsageError(f"{name} is {value}; {remedy}.")


@dataclass(frozen=True)
class AdmConfig:
    """The attentive dynamics model, Eq. 1-4: where in the frame can one read off the last action?"""

    attention: Attention = "softmax"
    """How scores become a map. Paper: sparsemax. Released code: softmax."""
    direct: Literal["attention", "information"] = "attention"
    """What direct control is. attention: Eq. 2-4, where the model looks to guess the action (paper). information: the
    information about the action in each cell on its own, as a share of the sum over cells; there is no Lambda then, and
    `cell_loss` is the only loss."""
    channels: int = 8
    """Features of the first convolution; each further one doubles them. Not in the paper; the released code's."""
    features: int = 64
    """Size of a cell's code. The released code's."""
    hidden: int = 32
    """Size of the layer before the output. The released code's."""
    place: bool = True
    """Multiply a cell's code with an embedding of its absolute coordinate. Paper: Theta and Lambda see the cell
    only. Released code: yes."""
    cell_loss: float = 1.0
    """Weight of the cross-entropies of all cells, each on its own, summed over the cells as in Choi et al. (2019).
    Paper: refers to Choi et al. for details (1). Released code: 0."""
    entropy_loss: float = 0.001
    """Weight of -entropy(direct), which keeps the attention from collapsing onto one of several cells. Choi et
    al.: 0.001. Released code: 0."""
    policy_prior: bool = True
    """Give ADM the policy's probability of each action, so that it models the effect of the action and not the
    habits of the agent. Paper and released code: no."""

    def __post_init__(self) -> None:
        _require(min(self.channels, self.features, self.hidden) >= 1, "A layer size of ADM", self, "use at least 1")
        for name in ("cell_loss", "entropy_loss"):
            _require(getattr(self, name) >= 0, f"adm.{name}", getattr(self, name), "use 0 (without) or more")
        learns = self.direct == "attention" or self.cell_loss > 0
        _require(learns, "adm.cell_loss", self.cell_loss, "with adm.direct information it is all that teaches: use 1")


@dataclass(frozen=True)
class RtmConfig:
    """The relational transition model, Eq. 6-8: which cell of the last frame explains each cell of this one?"""

    model: Literal["pairs", "local"] = "local"
    """pairs: Phi and Gamma for every pair of cells (paper). local: Phi is a convolution that sees one cell and draws
    (predicts) its surroundings, and a cell relies on the cells that drew its changed pixels best
    (`control.local_rtm`). Of the other settings here, only `stack` and those that begin with `local` apply."""
    local_features: int = 16
    """local: features of its two hidden layers."""
    local_sources: float = 0.125
    """local: share of the cells that Phi is trained to draw from in each transition; cells with a change in or around
    them come first."""
    local_credit: Literal["explained", "even"] = "explained"
    """local: weight of each changed pixel of a cell in its relation. explained: how much of its change the best
    drawing explains; cells that showed nothing but background are no sources. even: the same for all pixels, and
    every cell is a source."""
    attention: Attention = "softmax"
    """How scores become rows of the relation. Paper: sparsemax. Released code: softmax."""
    channels: int = 16
    """Features of the first convolution; each further one doubles them. Paper: 16 (then 32)."""
    features: int = 1024
    """Size of a cell's code and of the embeddings it is multiplied with. Paper: 1024."""
    gamma_features: int = 512
    """Size of Gamma's layer after the multiplication. Paper: 512."""
    stack: int = 4
    """Frames of a source cell that Phi and Gamma see. Paper: s in the equations (1), a bold S in the tables.
    Released code: 4."""
    gamma_sees_target: bool = True
    """Give Gamma the cell s_t^{h,w} that is being explained. Paper: Eq. 7 says yes, Gamma's table no. Released
    code: no."""
    anchor: float = 0.5
    """Strength of the noise anchor, in standard deviations of the observation. Paper: none (0). Released code: 5
    grey levels (1.6 for Pong), which is a different strength in every game."""
    anchor_kind: AnchorKind = "cell"
    """The noise: every cell brighter or darker, or every pixel (released code). gauss: a cell's brightness from a
    normal distribution."""
    loss: Literal["mixture", "blend"] = "mixture"
    """blend: the squared error of Eq. 6, the weighted sum of all sources' drawings (paper, released code).
    mixture: the negative log-likelihood of the cell if one source, sampled by the weights of Eq. 8, draws it alone."""
    source_loss: float = 0.5
    """Weight of the mean squared error of every source's own drawing, attended or not. It trains Phi also on
    pairs without attention, but needs all sources. Paper: none. Released code: there, switched off."""
    targets: float = 0.5
    """Share of the cells that Phi draws in each transition: those that changed first, then others at random.
    Paper, released code: all (1)."""
    still_on_itself: bool = True
    """An unchanged cell relies on itself, whatever Gamma's scores are: nothing can have come into it.
    Paper, released code: no."""
    phi_pairs: Literal["all", "attended"] = "attended"
    """Pairs on which Phi is evaluated. A pair of exactly zero attention adds nothing to Eq. 6, so `attended`
    leaves it out where the loss is the blend alone; the only side effect is that BatchNorm in Phi then averages over
    attended pairs. Paper, released code: all."""

    def __post_init__(self) -> None:
        smallest = min(self.channels, self.features, self.gamma_features, self.stack, self.local_features)
        _require(smallest >= 1, "A layer size of RTM", self, "use at least 1")
        _require(self.anchor >= 0, "rtm.anchor", self.anchor, "use 0 (no anchor) or more")
        _require(self.source_loss >= 0, "rtm.source_loss", self.source_loss, "use 0 (without) or more")
        _require(0 < self.targets <= 1, "rtm.targets", self.targets, "use a share in (0, 1]; 1 draws every cell")
        _require(0 < self.local_sources <= 1, "rtm.local_sources", self.local_sources, "use a share in (0, 1]")


@dataclass(frozen=True)
class LatentConfig:
    """Accumulated control, Eq. 9-10, and the reward made of it, Eq. 11."""

    rho: float = 0.99
    """Discount per step of control passed on. Paper: 0.99."""
    combine: Literal["sum", "max"] = "max"
    """How Eq. 10 combines direct control and the control passed on. Paper: sum. max: the larger of the two, so that g
    does not grow where a body stands still, and a body that lies on two cells counts once in total."""
    hold: bool = False
    """A cell keeps the control it had if its sources bring less: max(g_prev, propagated). Paper: no. Released
    code: yes."""
    clip: bool = False
    """Keep g in [0, 1]. Paper: no (g is bounded by 1 / (1 - rho)). Released code: yes."""
    above_chance: bool = False
    """g counts only the part of direct control above 1 / HW, the value of a uniform map: the rest carries no
    information about a cell, but would add up over the steps. Paper, released code: no."""
    background: float = 0.0
    """Share of its control that a cell keeps in each step in which it shows nothing but background: what was
    controlled there has left. Paper, released code: all (1)."""
    flash: float = 0.5
    """A step that changes more than this share of the pixels gives no control and passes none on: a flash of
    the screen is not something that was moved. 1: off. Paper, released code: 1."""
    relation: Literal["learnt", "itself"] = "learnt"
    """From which cells control is passed on to a cell. learnt: RTM's relation. itself: from itself only; the paper's
    ablation of latent control."""
    reward: RewardForm = "difference"
    """What is summed over the cells. Paper: difference, g - g_prev. positive: its positive part, cell by cell.
    record: the positive part of g - the cell's highest g so far, discounted by rho per step since then. spread: the
    same for propagated (or held) control, the released form closest to Eq. 11. level: g itself; its discounted sum,
    times 1 - discount, is that of `difference` with the loss at an end, but for a term that no action changes. beyond:
    propagated (or held) control of cells that the last action does not directly control. moved: the same, of those
    that changed. These three reward the amount, not the growth, of control: use --reward.no-end-takes-all."""

    @property
    def bound(self) -> float:
        """The most that g can be in a cell."""
        return 1.0 if self.clip or self.combine == "max" else 1 / (1 - self.rho)

    def __post_init__(self) -> None:
        for name in ("background", "flash"):
            share = getattr(self, name)
            _require(0 <= share <= 1, f"latent.{name}", share, "use a share in [0, 1]")
        _require(0 <= self.rho < 1, "latent.rho", self.rho, "use a discount in [0, 1), the paper's is 0.99")


@dataclass(frozen=True)
class ExecutionConfig:
    """How the same numbers are computed. `auto` means on for a GPU, off for a CPU, unless stated otherwise."""

    bf16: Switch = "auto"
    """Matrix products in bfloat16; attention, losses, statistics and the optimiser stay in float32. On a CPU with
    instructions for it (AVX512-BF16 or AMX) `auto` does this for the large cells of Atari."""
    dense: Switch = "auto"
    """Convolutions as products with one dense matrix: more arithmetic, but all of it in large matrix products. On a
    CPU `auto` does this for the small cells of mini games."""
    fused: Switch = "auto"
    """Triton kernels for BatchNorm + LeakyReLU, the product of pairs and the sum of Eq. 6."""
    folded: Switch = "auto"
    """The tracker's attention with BatchNorm inside the weights, which are prepared once per update. auto: always."""
    graph: Switch = "auto"
    """The tracker's step, and a gradient step, as one CUDA graph instead of hundreds of launches."""


@dataclass(frozen=True)
class OracleConfig:
    """For diagnosis on mini games, never for real training: instead of learnt maps the tracker reports true ones, found
    by playing every alternative action in copies of the game (`observers.oracle`)."""

    lags: int = 0
    """Number of past actions whose effects are followed. 0: no oracle; the maps are learnt, as in the paper."""
    normalise: Literal["chained", "binary"] = "chained"
    """Value in g of a cell that an action controls. chained: 1 / (cells that the action controlled at once), which
    is what Eq. 5 gives with a true relation. binary: 1."""

    def __post_init__(self) -> None:
        _require(self.lags >= 0, "oracle.lags", self.lags, "use 0 (no oracle) or the number of actions to follow")


@dataclass(frozen=True)
class ThingsConfig:
    """Things instead of cells carry control (`megareward.things`); maps are still drawn onto the cells. Of `adm` and
    `rtm` they use `rtm.stack` and `rtm.local_features` only."""

    slots: int = 0
    """Maximum number of things that are followed, the largest first. 0: cells, as in the paper."""
    sight: Literal["contrast", "level"] = "contrast"
    """What a thing is, besides connected and not background. contrast: of any grey levels, but all of it brighter than
    the background, or all of it darker; so sprites of several colours and blurred edges are one thing, and so are two
    that touch. level: of one grey level."""

    def __post_init__(self) -> None:
        _require(self.slots >= 0, "things.slots", self.slots, "use 0 (cells) or the number of things to follow")


@dataclass(frozen=True)
class ControlConfig:
    """Everything about the control models."""

    H: int = 4
    """Rows of cells. Paper: 4. Released code: 4 or 7, chosen per game."""
    W: int = 4
    """Columns of cells. Paper: 4."""
    adm: AdmConfig = field(default_factory=AdmConfig)
    rtm: RtmConfig = field(default_factory=RtmConfig)
    latent: LatentConfig = field(default_factory=LatentConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    oracle: OracleConfig = field(default_factory=OracleConfig)
    things: ThingsConfig = field(default_factory=ThingsConfig)
    normalise: Literal["pixel", "fixed"] = "pixel"
    """Observation scaling. pixel: (frame - mean of each pixel) / one standard deviation, as in the released code.
    fixed: frame / 255. The paper does not say."""
    normalise_frames: int = 10_000
    """Frames from which the statistics of `pixel` are taken; fixed afterwards. Released code: about 10,000."""
    learning_rate: float = 1e-3
    """Of Adam, for ADM and RTM. Not in the paper. Released code: 1e-4."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Of Adam. Not in the paper. Released code: (0, 0.9)."""
    batch: int = 256
    """Transitions per gradient step. Not in the paper. Released code: 8."""
    replay: int = 2
    """Rollouts kept to train on, the newest included. Not in the paper. Released code: 2."""
    fraction: float = 1.0
    """Share of the kept transitions drawn, without replacement, in each pass."""
    passes: int = 1
    """Passes per update. With replay 2 each transition is used twice, as in the released code."""
    overlap: Switch = "auto"
    """Train on a rollout while the next one is collected. Maps are then made by a copy of the models that has learnt
    from all but the newest rollout. auto: on for a GPU. off: learn, then collect."""
    background_frames: int = 614_400
    """First frames of the run, from a sample of which the background is taken: the median of each pixel."""

    def __post_init__(self) -> None:
        _require(min(self.H, self.W) >= 1, "The grid", f"{self.H}x{self.W}", "use at least one cell each way")
        _require(0 <= self.learning_rate <= 1, "control.learning_rate", self.learning_rate, "use a rate in [0, 1]")
        _require(self.batch >= 2, "batch", self.batch, "BatchNorm needs at least 2 transitions")
        _require(self.replay >= 1, "replay", self.replay, "keep at least the newest rollout (1)")
        _require(0 < self.fraction <= 1, "fraction", self.fraction, "use a share in (0, 1]")
        _require(self.passes >= 0, "passes", self.passes, "use 0 (never train) or more")
        for name in ("normalise_frames", "background_frames"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "use at least 1")
        if self.things.slots:
            form, hold = self.latent.reward, self.latent.hold
            _require(form not in OF_PLACES, "latent.reward", form, "a thing is no place that keeps a record: use moved")
            _require(
                not hold,
                "latent.hold",
                hold,
                "a thing that went has nothing left to hold: use --control.latent.no-hold",
            )
            _require(not self.oracle.lags, "oracle.lags", self.oracle.lags, "true maps have no things: use one of them")


RELEASED_TRAINING: dict[str, Any] = {
    "learning_rate": 1e-4,
    "betas": (0.0, 0.9),
    "batch": 8,
    "replay": 2,
    "fraction": 1.0,
    "passes": 1,
}
"""How the released code trains ADM and RTM: 256 gradient steps per rollout of 8 x 128. The paper does not say."""


def paper(config: ControlConfig) -> ControlConfig:
    """The text of the paper, literally; what it does not say is as in the released code, or left out."""
    return replace(
        config,
        H=4,
        W=4,
        adm=replace(
            config.adm,
            direct="attention",
            attention="sparsemax",
            place=False,
            cell_loss=1.0,
            entropy_loss=0.001,
            policy_prior=False,
        ),
        rtm=replace(
            config.rtm,
            model="pairs",
            attention="sparsemax",
            stack=1,
            gamma_sees_target=True,
            anchor=0.0,
            loss="blend",
            source_loss=0.0,
            targets=1.0,
            still_on_itself=False,
            phi_pairs="all",
        ),
        latent=replace(
            config.latent,
            rho=0.99,
            combine="sum",
            hold=False,
            clip=False,
            above_chance=False,
            background=1.0,
            flash=1.0,
            reward="difference",
        ),
        normalise="fixed",
        background_frames=10_000,
        **RELEASED_TRAINING,
        overlap="off",
    )


def released(config: ControlConfig) -> ControlConfig:
    """What the authors' released code does, less its hand-made settings per game."""
    return replace(
        config,
        H=4,
        W=4,
        adm=replace(
            config.adm,
            direct="attention",
            attention="softmax",
            place=True,
            cell_loss=0.0,
            entropy_loss=0.0,
            policy_prior=False,
        ),
        rtm=replace(
            config.rtm,
            model="pairs",
            attention="softmax",
            stack=4,
            gamma_sees_target=False,
            anchor=0.25,
            anchor_kind="pixel",
            loss="blend",
            source_loss=0.0,
            targets=1.0,
            still_on_itself=False,
            phi_pairs="all",
        ),
        latent=replace(
            config.latent,
            rho=0.99,
            combine="sum",
            hold=True,
            clip=True,
            above_chance=False,
            background=1.0,
            flash=1.0,
            reward="spread",
        ),
        normalise="pixel",
        **RELEASED_TRAINING,
        overlap="off",
    )


def moved(config: ControlConfig) -> ControlConfig:
    """Control of what moves in place of Eq. 11, and direct control as the information about the action in each cell."""
    return replace(
        config,
        adm=replace(config.adm, direct="information", cell_loss=1.0),
        latent=replace(config.latent, above_chance=True, reward="moved"),
    )


def by_things(config: ControlConfig) -> ControlConfig:
    """Control is carried by things instead of cells. Three frames show how fast a thing moves."""
    rtm, latent = replace(config.rtm, stack=3), replace(config.latent, hold=False)
    return replace(config, things=ThingsConfig(slots=24), rtm=rtm, latent=latent)


def things(config: ControlConfig) -> ControlConfig:
    """Control of what moves, carried by things."""
    return by_things(moved(config))


def mini(config: ControlConfig) -> ControlConfig:
    """Small worlds on two cores: small networks that learn fast; everything else unchanged."""
    return replace(
        config,
        adm=replace(config.adm, features=32),
        rtm=replace(config.rtm, channels=16, features=128, gamma_features=64, targets=0.375, local_features=8),
        learning_rate=3e-3,
        batch=32,
        fraction=0.25,
        overlap="on",
        normalise_frames=2_000,
        background_frames=20_000,
    )
