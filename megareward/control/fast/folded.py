"""Attention with fixed weights: each layer with its BatchNorm is one matrix and one bias.

Between two updates the weights do not change, but the tracker uses them at every step. What depends on them alone is
computed once: a convolution as a matrix, BatchNorm's scale and shift inside it, the codes of all offsets and actions,
everything in the precision of the products. The numbers are those of `ADM.attend` and `RTM.attend`, up to rounding.
"""

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.adm import ADM, CellNetwork, change_and_now
from megareward.control.layers import LEAK, Convolution, Encoder, NormLeaky, full_precision, padded
from megareward.control.pairs import all_pairs, pair_product
from megareward.control.rtm import RTM
from megareward.control.sparsemax import ATTENTIONS
from megareward.types import Float, Int, Tensor


class FoldedLayer:
    """leaky_relu(x @ weight + bias), where the rows of x may be padded with zeros."""

    def __init__(self, layer: nn.Module, norm: nn.Module, dtype: torch.dtype) -> None:
        assert isinstance(layer, Convolution | nn.Linear)
        assert isinstance(norm, NormLeaky)
        self.layer, self.norm = layer, norm
        n_in, n_out = self._matrix().shape
        self.weight = torch.zeros(padded(n_in), padded(n_out), dtype=dtype, device=norm.weight.device)
        self.bias = torch.zeros(padded(n_out), dtype=dtype, device=norm.weight.device)

    def _matrix(self) -> Float[Tensor, "n_in n_out"]:
        return self.layer.matrix() if isinstance(self.layer, Convolution) else self.layer.weight.T

    def refresh(self) -> None:
        matrix, norm = self._matrix(), self.norm
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()  # per feature map, which is the last axis of a row
        shift = norm.bias - norm.running_mean * scale
        positions = matrix.shape[1] // len(scale)
        self.weight[: matrix.shape[0], : matrix.shape[1]] = matrix * scale.repeat(positions)
        self.bias[: matrix.shape[1]] = shift.repeat(positions)

    def linear(self, x: Float[Tensor, "M n_in"]) -> Float[Tensor, "M n_out"]:
        return torch.addmm(self.bias, x, self.weight)

    def __call__(self, x: Float[Tensor, "M n_in"]) -> Float[Tensor, "M n_out"]:
        return F.leaky_relu_(self.linear(x), LEAK)


class FoldedEncoder:
    """A folded `Encoder`; its output is padded."""

    def __init__(self, encoder: Encoder, dtype: torch.dtype) -> None:
        modules = list(encoder.layers)
        pairs = zip(modules[::2], modules[1::2], strict=True)
        self.layers = [FoldedLayer(layer, norm, dtype) for layer, norm in pairs]
        self.dtype = dtype

    def refresh(self) -> None:
        for layer in self.layers:
            layer.refresh()

    def __call__(self, cells: Float[Tensor, "N HW n_in"]) -> Float[Tensor, "M F"]:
        x = cells.flatten(0, 1).to(self.dtype)
        missing = len(self.layers[0].weight) - x.shape[1]
        x = F.pad(x, (0, missing)) if missing else x
        for layer in self.layers:
            x = layer(x)
        return x


class FoldedCells:
    """A folded `CellNetwork`. Tensors are only updated in place, because a CUDA graph reads them."""

    def __init__(self, network: CellNetwork, dtype: torch.dtype) -> None:
        self.network = network
        self.encoder = FoldedEncoder(network.encoder, dtype)
        self.hidden = FoldedLayer(network.head[0], network.head[1], dtype)
        # Codes and last weights, as wide as the rows they meet; what pads them stays zero.
        width, n_hidden = self.hidden.weight.shape
        like, last = self.hidden.bias, network.head[2]
        assert isinstance(last, nn.Linear)
        self.last = last
        self.places = None if network.place is None else like.new_zeros(network.place.in_features, width)
        self.out = like.new_zeros(n_hidden, last.out_features)

    def refresh(self) -> None:
        self.encoder.refresh()
        self.hidden.refresh()
        place = self.network.place
        if place is not None and self.places is not None:
            self.places[:, : place.out_features] = place.weight.T + place.bias
        self.out[: self.last.in_features] = self.last.weight.T

    def __call__(self, cells: Float[Tensor, "N HW n_in"]) -> Float[Tensor, "N HW n_out"]:
        N, HW, _ = cells.shape
        code = self.encoder(cells)
        if self.places is not None:
            code = (code.reshape(N, HW, -1) * self.places).flatten(0, 1)
        found = full_precision(self.hidden(code) @ self.out).reshape(N, HW, -1)
        return found if self.last.bias is None else found + self.last.bias


class FoldedDirect:
    """`ADM.attend`, after `refresh`."""

    def __init__(self, adm: ADM, dtype: torch.dtype) -> None:
        self.adm, self.network = adm, FoldedCells(adm.lambda_ or adm.theta, dtype)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the weights and statistics as they are now."""
        self.network.refresh()

    def __call__(
        self, before: Float[Tensor, "N HW pixels"], now: Float[Tensor, "N HW pixels"]
    ) -> Float[Tensor, "N HW"]:
        """Eq. 2-3, or the information in each cell."""
        if self.adm.lambda_ is None:
            return self.adm.information(self.network(change_and_now(before, now)))
        return ATTENTIONS[self.adm.config.attention](self.network(now).squeeze(-1))


class FoldedRelation:
    """`RTM.attend`, after `refresh`; tensors are only updated in place here, too."""

    def __init__(self, rtm: RTM, dtype: torch.dtype) -> None:
        self.rtm, self.dtype, gamma = rtm, dtype, rtm.gamma
        self.source_encoder = FoldedEncoder(gamma.interaction.encoder, dtype)
        self.target_encoder = None if gamma.target is None else FoldedEncoder(gamma.target, dtype)
        self.score_hidden = FoldedLayer(gamma.head[0], gamma.head[1], dtype)
        n_cells, n_actions = len(gamma.interaction.offset_one_hot), gamma.interaction.action.in_features
        width, n_scores = self.score_hidden.weight.shape
        like = self.score_hidden.bias
        self.actions = like.new_zeros(n_actions, width)
        self.offsets = like.new_zeros(n_cells, n_cells, width)
        self.score_out = like.new_zeros(n_scores)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the weights and statistics as they are now."""
        self.source_encoder.refresh()
        self.score_hidden.refresh()
        if self.target_encoder is not None:
            self.target_encoder.refresh()
        gamma = self.rtm.gamma
        action, layer = gamma.interaction.action, gamma.head[3]
        self.actions[:, : action.out_features] = action.weight.T + action.bias
        self.offsets[..., : action.out_features] = gamma.interaction.offset_codes(self.dtype)
        assert isinstance(layer, nn.Linear)
        self.score_out[: layer.in_features] = layer.weight[0]

    def __call__(
        self, source: Float[Tensor, "N HW n_in"], actions: Int[Tensor, "N"], target: Float[Tensor, "N HW pixels"]
    ) -> Float[Tensor, "N HW HW"]:
        """Eq. 7-8."""
        N, HW, _ = source.shape
        codes = self.source_encoder(source).reshape(N, HW, -1) * self.actions[actions][:, None]
        seen = None if self.target_encoder is None else self.target_encoder(target).reshape(N, HW, -1)
        product = pair_product(codes, self.offsets, all_pairs(N, HW), fused=self.rtm.fused, seen=seen)
        scores = self._scores(product).reshape(N, HW, HW)
        return ATTENTIONS[self.rtm.config.attention](scores)

    def _scores(self, product: Float[Tensor, "M F"]) -> Float[Tensor, "M"]:
        if self.rtm.fused:
            from megareward.control.fast.fused_cells import scores  # needs Triton, which a CPU may not have

            return scores(self.score_hidden.linear(product), self.score_out)
        return full_precision(self.score_hidden(product).tanh_() @ self.score_out)
