"""The models that `bench.control` compares: the paper's plain form and ours, with the same weights."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from megareward.control.config import ControlConfig, ExecutionConfig, RtmConfig
from megareward.control.layers import full_precision
from megareward.control.learning.learner import ControlLearner
from megareward.control.learning.replay import Transitions
from megareward.control.models import ControlModels
from megareward.control.pairs import all_pairs, attended_pairs
from megareward.control.rtm import RTM, Interaction, RtmOutput
from megareward.control.sparsemax import ATTENTIONS
from megareward.types import Float, Int, Tensor

FRAME, N_ACTIONS = (84, 84), 6


@dataclass(frozen=True)
class Variant:
    """One way to compute the same step."""

    name: str
    plain: bool = False
    """Every pair forwarded on its own, through encoders and all, as in the paper's text."""
    bf16: bool = False
    dense: bool = False
    fused: bool = False
    attended: float | None = None
    """Leave out pairs without attention. 0: as a new model attends; else its scores are sharpened to this share."""
    folded: bool = False
    graph: bool = False
    compile: bool = False
    mixture: bool = False
    """Pairs of cells with our own loss and sampling of cells, not the paper's."""
    local: bool = False
    """Relations by sight, the default, in place of pairs of cells."""


VARIANTS = {
    v.name: v
    for v in (
        Variant("plain", plain=True),
        Variant("plain-bf16", plain=True, bf16=True),
        Variant("once"),
        Variant("once-attended", attended=0.0),
        Variant("once-attended-quarter", attended=0.25),
        Variant("once-mixture", mixture=True),
        Variant("local-plain", local=True),
        Variant("once-bf16", bf16=True),
        Variant("dense", bf16=True, dense=True),
        Variant("fused", bf16=True, fused=True),
        Variant("dense-fused", bf16=True, dense=True, fused=True),
        Variant("dense-fused-graph", bf16=True, dense=True, fused=True, graph=True),
        Variant("folded", bf16=True, dense=True, fused=True, folded=True, graph=True),
        Variant("mixture-folded", bf16=True, dense=True, fused=True, folded=True, mixture=True, graph=True),
        Variant("mixture", bf16=True, dense=True, fused=True, mixture=True),
        Variant("mixture-graph", bf16=True, dense=True, fused=True, mixture=True, graph=True),
        Variant("local", bf16=True, local=True),
        Variant("local-graph", bf16=True, local=True, graph=True),
        Variant("dense-fused-attended", bf16=True, dense=True, fused=True, attended=0.0),
        Variant("dense-fused-attended-quarter", bf16=True, dense=True, fused=True, attended=0.25),
        Variant("fused-attended-quarter", bf16=True, fused=True, attended=0.25),
        Variant("dense-compile", bf16=True, dense=True, compile=True),
        Variant("dense-fused-compile", bf16=True, dense=True, fused=True, compile=True),
    )
}
"""Slow to start (torch.compile) last, so that a time budget cuts off these first."""
TRAINING_VARIANTS = tuple(name for name, variant in VARIANTS.items() if not variant.folded)
CPU_VARIANTS = ("plain", "once", "once-attended", "once-attended-quarter", "once-mixture", "local-plain")
INFERENCE_VARIANTS = (
    "plain",
    "plain-bf16",
    "once",
    "once-bf16",
    "dense",
    "dense-fused-graph",
    "folded",
    "mixture-folded",
    "local-graph",
)


class PlainRTM(RTM):
    """The same model with every pair forwarded on its own: same numbers, except for the encoders' running variance."""

    def attend(
        self,
        source: Float[Tensor, "N HW n_in"],
        actions: Int[Tensor, "N"],
        target: Float[Tensor, "N HW pixels"] | None = None,
    ) -> Float[Tensor, "N HW HW"]:
        return ATTENTIONS[self.config.attention](self._scores(source, actions))

    def _scores(self, source: Float[Tensor, "N HW n_in"], actions: Int[Tensor, "N"]) -> Float[Tensor, "N HW HW"]:
        N, HW, _ = source.shape
        scores = self.gamma.head(every_pair(self.gamma.interaction, source, actions))
        return full_precision(scores).reshape(N, HW, HW)

    def forward(
        self,
        source: Float[Tensor, "N HW n_in"],
        actions: Int[Tensor, "N"],
        target: Float[Tensor, "N HW pixels"] | None = None,
        targets: Int[Tensor, "N K"] | None = None,
    ) -> RtmOutput:
        assert targets is None, "the paper's form draws every cell"
        scores = self._scores(source, actions)
        relation = ATTENTIONS[self.config.attention](scores)
        products, pairs = every_pair(self.phi.interaction, source, actions), all_pairs(*relation.shape[:2])
        if self.skips_pairs:
            pairs = attended_pairs(relation)
            products = products[pairs.rows]
        return RtmOutput(scores, relation, self.phi.decoder(products), pairs, None)


def every_pair(net: Interaction, source: Float[Tensor, "N HW n_in"], actions: Int[Tensor, "N"]) -> Float[Tensor, "M F"]:
    """The three inputs of every pair put into the batch axis, as the paper's text says, and multiplied."""
    N, HW, _ = source.shape
    cells = source[:, None].expand(N, HW, HW, -1).flatten(0, 2)  # (n, to, from)
    one_hot = F.one_hot(actions, net.action.in_features).to(source.dtype)
    offsets = net.offset_one_hot.expand(N, HW, HW, -1).flatten(0, 2)
    return net.encoder(cells) * net.action(one_hot.repeat_interleave(HW * HW, 0)) * net.offset(offsets)


def build(variant: Variant, device: torch.device) -> ControlModels:
    """Full-size models in the given form, with the same weights for every variant."""
    pairs = RtmConfig(model="pairs")
    paper = replace(pairs, attention="sparsemax", gamma_sees_target=False, anchor_kind="pixel", loss="blend")
    paper = replace(paper, source_loss=0.0, targets=1.0, phi_pairs="all" if variant.attended is None else "attended")
    config = ControlConfig(
        learning_rate=0.0,  # the attention, and with it the work, stays the same from step to step
        rtm=RtmConfig() if variant.local else pairs if variant.mixture else paper,
        execution=ExecutionConfig(
            bf16="on" if variant.bf16 else "off",
            dense="on" if variant.dense else "off",
            fused="on" if variant.fused else "off",
            folded="on" if variant.folded else "off",
            graph="on" if variant.graph else "off",
        ),
    )
    models = ControlModels(config, FRAME, N_ACTIONS, device)
    if variant.plain:
        models.rtm.__class__ = PlainRTM  # the same weights and the same code around it
    return models


def frames_like_a_game(batch: int, device: torch.device) -> Transitions:
    """A still background with noise on a few pixels: the content matters to the attention only, not to the time."""
    generator = torch.Generator(device).manual_seed(0)
    background = torch.randint(256, FRAME, dtype=torch.uint8, generator=generator, device=device)
    frames = background.expand(batch, 5, *FRAME).clone()
    moving = torch.rand(frames.shape, generator=generator, device=device) < 0.03
    frames[moving] = 236
    actions = torch.randint(N_ACTIONS, (batch,), generator=generator, device=device)
    return Transitions(frames[:, :4], actions, frames[:, 4], torch.zeros(batch, N_ACTIONS, device=device))


def sharpen(models: ControlModels, batch: Transitions, share: float) -> None:
    """Scale Gamma's scores until about `share` of the pairs is attended, as after some training."""
    assert isinstance(models.rtm, RTM)
    weight = next(p for name, p in models.rtm.gamma.head.named_parameters() if name == "3.weight")
    original = weight.detach().clone()
    low, high = 0.0, 10.0  # in powers of two
    for _ in range(8):
        middle = (low + high) / 2
        with torch.no_grad():
            weight.copy_(original * 2**middle)
        attended = attended_share(models, batch)
        low, high = (middle, high) if attended > share else (low, middle)


@torch.no_grad()
def attended_share(models: ControlModels, batch: Transitions) -> float:
    few = Transitions(*(x[:16] for x in batch))
    learner = ControlLearner(models)
    metrics = learner.rtm_loss(few, learner.draw_randomness(len(few.actions), learner.noise))[1]
    return metrics["rtm/attended"].item() if "rtm/attended" in metrics else 1.0  # by sight all sources are looked at
