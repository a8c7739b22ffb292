"""The zoo: every way to reward an agent. One line of the table per method; the command line and the tests follow it.

Free of torch: a method's own file is imported only when it is built.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from megareward.errors import UsageError, suggestion
from megareward.rewards.settings import (
    AliveConfig,
    ARndConfig,
    CountConfig,
    CuriosityConfig,
    DirConfig,
    DivConfig,
    EmpConfig,
    ExtrinsicConfig,
    GRndConfig,
    MegaConfig,
    MorelConfig,
    MRndConfig,
    NoSettings,
    OomdpConfig,
    RndConfig,
    StoConfig,
    StoManagerConfig,
)
from megareward.world_model.config import WorldConfig, WorldModelConfig

if TYPE_CHECKING:
    from megareward.rewards.interface import RewardTerm
    from megareward.world import World


@dataclass(frozen=True)
class Method:
    """How a method is listed, configured and built: observers, reward streams, what the policy sees, its settings."""

    name: str
    summary: str
    config: type
    """Frozen dataclass of the method's own settings."""
    module: str
    """Where its `build(config, world) -> list[RewardTerm]` lives."""
    uses_score: bool = False
    """Only such a method is ever handed the game's rewards, and only for such a method may the score stay visible."""
    observers: tuple[str, ...] = ()
    """Names from `observers.OBSERVERS`, whose fields the rewards or the policy read."""
    channels: tuple[str, ...] = ()
    """Recorded fields that the policy sees as channels of the frame; see `ppo.policy.PolicyInputs` for these three."""
    vectors: tuple[str, ...] = ()
    skill: str | None = None
    one_skill_per_game: bool = False
    """Whether a trained run plays each game by one skill, so that skills have scores of their own."""
    has_auxiliary_loss: bool = False
    """Whether `module` also has `build_auxiliary(config, world, policy, rollout) -> AuxiliaryLoss`."""
    latent: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `--control.latent` that define the method; they override those of the user and of presets."""
    least_stack: int = 1
    """Frames that the policy must see at once, because an observer or a loss compares them."""
    trains_policy: bool = True
    """False: actions are uniformly random and no policy learns."""
    policy_learns: bool = True
    """False: the policy stays as it was in the run that this one starts from."""
    starts_from: str | None = None
    """The method whose run it must start from."""
    models_first: bool = False
    """Whether a run begins with random play in which its models learn, although it is trained on the score. A run that
    starts from another one skips this."""
    pretrains: str = "extrinsic"
    """The method that is trained on the score from a run of this one, by default."""

    def build(self, config: Any, world: "World") -> "list[RewardTerm]":
        builder: Callable[[Any, World], list[RewardTerm]] = importlib.import_module(self.module).build
        return builder(config, world)

    def build_auxiliary(self, config: Any, world: "World", policy: Any, rollout: Any) -> Any:
        return importlib.import_module(self.module).build_auxiliary(config, world, policy, rollout)


CONTROL = ("control",)
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("mega", "Mega-reward: growth of control.", MegaConfig, "megareward.rewards.mega", observers=CONTROL),
        Method(
            "mega-direct",
            "Ablation of mega: no control is passed on between cells (no latent control).",
            MegaConfig,
            "megareward.rewards.mega",
            observers=CONTROL,
            latent={"relation": "itself"},
        ),
        Method(
            "mega-count",
            "Ablation of mega: a count bonus on g in place of its growth.",
            MegaConfig,
            "megareward.rewards.mega_count",
            observers=CONTROL,
        ),
        Method(
            "dir",
            "Direct control only: mega-reward without latent control.",
            DirConfig,
            "megareward.rewards.dir",
            observers=CONTROL,
        ),
        Method("rnd", "Random network distillation: novelty of frames.", RndConfig, "megareward.rewards.rnd"),
        Method(
            "g-rnd",
            "rnd that sees only what is under control (G-RND).",
            GRndConfig,
            "megareward.rewards.rnd",
            observers=CONTROL,
        ),
        Method(
            "a-rnd",
            "rnd that sees only what the last action controls (A-RND).",
            ARndConfig,
            "megareward.rewards.rnd",
            observers=CONTROL,
        ),
        Method(
            "m-rnd",
            "rnd that sees only what moves (M-RND, with MOREL's masks).",
            MRndConfig,
            "megareward.rewards.rnd",
            observers=("masks",),
            least_stack=2,
        ),
        Method(
            "curiosity",
            "Curiosity: prediction error of a dynamics model.",
            CuriosityConfig,
            "megareward.rewards.curiosity",
        ),
        Method("count", "Count-based novelty: rare frames.", CountConfig, "megareward.rewards.count"),
        Method("emp", "Empowerment: how far actions determine the near future.", EmpConfig, "megareward.rewards.emp"),
        Method(
            "sto",
            "Stochastic skills: skills that can be told apart by what is seen (SNN4HRL).",
            StoConfig,
            "megareward.rewards.sto",
            observers=("skills",),
            skill="skill",
            one_skill_per_game=True,
            pretrains="sto-manager",
        ),
        Method(
            "sto-manager",
            "A manager that picks among the skills of a run of sto, by the score (SNN4HRL).",
            StoManagerConfig,
            "megareward.rewards.extrinsic",
            uses_score=True,
            observers=("manager",),
            skill="skill",
            least_stack=4,
            policy_learns=False,
            starts_from="sto",
        ),
        Method(
            "div",
            "Diverse skills: each has effects that no other skill is predicted to have (DEHRL).",
            DivConfig,
            "megareward.rewards.div",
            observers=("levels",),
            skill="skill",
        ),
        Method("alive", "Survival only: -1 at every end, nothing else.", AliveConfig, "megareward.rewards.alive"),
        Method(
            "extrinsic",
            "PPO on the game's score (Ex-PPO).",
            ExtrinsicConfig,
            "megareward.rewards.extrinsic",
            uses_score=True,
        ),
        Method(
            "world-model",
            "PPO on the game's score; the policy also sees a World Model's z and h.",
            WorldModelConfig,
            "megareward.rewards.extrinsic",
            uses_score=True,
            observers=("world",),
            vectors=("world_z", "world_h"),
            models_first=True,
        ),
        Method(
            "world",
            "Random play that trains a World Model, for world-model to start from.",
            WorldConfig,
            "megareward.rewards.random_play",
            observers=("world",),
            trains_policy=False,
            pretrains="world-model",
        ),
        Method(
            "morel",
            "PPO on the score; its trunk also learns to segment what moves, before and meanwhile (MOREL).",
            MorelConfig,
            "megareward.rewards.morel",
            uses_score=True,
            has_auxiliary_loss=True,
            least_stack=2,
            models_first=True,
        ),
        Method(
            "oomdp",
            "PPO on the score; the policy also sees objects and the predicted moves of its own (OO-MDP).",
            OomdpConfig,
            "megareward.rewards.extrinsic",
            uses_score=True,
            observers=("objects",),
            vectors=("objects", "effects"),
            models_first=True,
        ),
        Method(
            "random", "Uniformly random actions.", NoSettings, "megareward.rewards.random_play", trains_policy=False
        ),
    )
}


def find_method(name: str) -> Method:
    try:
        return METHODS[name.lower()]
    except KeyError:
        raise UsageError(
            f"There is no method '{name}'.{suggestion(name, METHODS)} `megareward methods` lists them."
        ) from None
