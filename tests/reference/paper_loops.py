"""The paper as plain loops: one cell, one pair, one sum at a time. Slow, and meant to be compared with the equations.

Only the parameters are taken from the models under test. A cell is (frames, rows, columns) here, as in the tables.
"""

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from megareward.control.adm import ADM, CellNetwork
from megareward.control.grid import Grid
from megareward.control.layers import Convolution, NormLeaky
from megareward.control.rtm import RTM, Interaction

Vectors = dict[tuple[int, ...], Tensor]  # one entry per cell or pair


def norm_leaky(values: Vectors, norm: NormLeaky, training: bool) -> Vectors:
    """BatchNorm over all entries (and positions, if entries are maps), then LeakyReLU."""
    columns = torch.stack([v.reshape(len(norm.weight), -1) for v in values.values()])  # (M, C, positions)
    mean, var = norm.running_mean, norm.running_var
    if training:
        mean = columns.mean((0, 2))
        var = ((columns - mean[:, None]) ** 2).mean((0, 2))

    def one(v: Tensor) -> Tensor:
        column = v.reshape(len(norm.weight), -1)
        z = (column - mean[:, None]) / torch.sqrt(var[:, None] + norm.eps) * norm.weight[:, None] + norm.bias[:, None]
        return torch.where(z > 0, z, 0.01 * z).reshape(v.shape)

    return {key: one(v) for key, v in values.items()}


def positions_first(maps: Tensor) -> Tensor:
    """Flatten (C, h, w) in the order of the models' rows. A permutation of the FC layer's inputs, nothing else."""
    return maps.permute(1, 2, 0).reshape(-1)


def through(values: Vectors, layers: nn.Sequential, training: bool) -> Vectors:
    """All entries through the layers, each entry on its own except in BatchNorm."""
    for layer in layers:
        if isinstance(layer, NormLeaky):
            values = norm_leaky(values, layer, training)
        elif isinstance(layer, Convolution):
            transposed = isinstance(layer.conv, nn.ConvTranspose2d)
            h, w, c = layer.in_shape
            for key, v in values.items():
                maps = v if v.dim() == 3 else v.reshape(h, w, c).permute(2, 0, 1)
                convolve: Callable[..., Tensor] = F.conv_transpose2d if transposed else F.conv2d
                values[key] = convolve(maps[None], layer.conv.weight, layer.conv.bias, layer.conv.stride)[0]
        else:
            values = {key: layer(v if v.dim() == 1 else positions_first(v)) for key, v in values.items()}
    return values


def sparsemax(scores: list[Tensor]) -> list[Tensor]:
    """Try every size of the support; the right one is the largest whose smallest member stays positive."""
    z = torch.stack(scores)
    order = sorted(range(len(scores)), key=lambda i: -z[i].item())
    for size in range(len(scores), 0, -1):
        support = order[:size]
        tau = (sum(scores[i] for i in support) - 1) / size
        if (scores[support[-1]] - tau).item() > 0:
            return [scores[i] - tau if i in support else torch.zeros_like(scores[i]) for i in range(len(scores))]
    raise AssertionError("a support of one is always right")


def softmax(scores: list[Tensor]) -> list[Tensor]:
    shift = max(z.item() for z in scores)  # changes nothing but the range of exp
    total = sum(torch.exp(z - shift) for z in scores)
    return [torch.exp(z - shift) / total for z in scores]


ATTENTIONS = {"sparsemax": sparsemax, "softmax": softmax}


def one_hot(index: int, n: int) -> Tensor:
    return torch.tensor([1.0 if i == index else 0.0 for i in range(n)], dtype=torch.float64)


def cell_network(net: CellNetwork, grid: Grid, cells: Vectors, training: bool) -> Vectors:
    """Every cell (n, h, w) on its own."""
    codes = through(cells, net.encoder.layers, training)
    if net.place is not None:
        codes = {
            (n, h, w): code * net.place(one_hot(h * grid.W + w, grid.H * grid.W)) for (n, h, w), code in codes.items()
        }
    return through(codes, net.head, training)


def guesses(model: ADM, grid: Grid, before: Tensor, now: Tensor, training: bool) -> Vectors:
    """Eq. 1. `before`, `now` (N, H, W, rows, columns)."""
    places = itertools.product(range(len(now)), range(grid.H), range(grid.W))
    both = {p: torch.stack([now[p] - before[p], now[p]]) for p in places}
    return cell_network(model.theta, grid, both, training)


@torch.no_grad()
def information(model: ADM, grid: Grid, before: Tensor, now: Tensor, training: bool) -> dict[str, Tensor]:
    """Direct control by what each cell tells of the action, and the usual guess of each cell after a gradient step."""
    e, (n_cells, n_actions) = guesses(model, grid, before, now, training), model.usual.shape
    p = {place: softmax(list(logits)) for place, logits in e.items()}
    usual = [[float(share) for share in row] for row in model.usual]
    direct = torch.zeros(len(now), n_cells, dtype=torch.float64)
    for i, (h, w) in enumerate(itertools.product(range(grid.H), range(grid.W))):
        for a in range(n_actions):
            if training:
                mean = sum(float(p[n, h, w][a]) for n in range(len(now))) / len(now)
                usual[i][a] += 0.01 * (mean - usual[i][a])
            for n in range(len(now)):
                share = float(p[n, h, w][a])
                direct[n, i] += share * (math.log(share) - math.log(usual[i][a]))
    for n in range(len(now)):
        direct[n] /= max(float(direct[n].sum()), 0.1 * math.log(n_actions))
    return {"direct": direct, "usual": torch.tensor(usual, dtype=torch.float64)}


def adm(model: ADM, grid: Grid, before: Tensor, now: Tensor, actions: list[int], training: bool) -> dict[str, Tensor]:
    """Eq. 1-4 with its losses. `before`, `now` (N, H, W, rows, columns)."""
    N = len(actions)
    places = list(itertools.product(range(N), range(grid.H), range(grid.W)))
    e = guesses(model, grid, before, now, training)  # Eq. 1
    score = cell_network(model.lambda_, grid, {p: now[p][None] for p in places}, training)  # Eq. 2
    logits, direct = [], []
    action_loss = torch.zeros((), dtype=torch.float64)
    cell_loss, entropy_loss = torch.zeros_like(action_loss), torch.zeros_like(action_loss)
    for n in range(N):
        cells = [p for p in places if p[0] == n]
        alpha = ATTENTIONS[model.config.attention]([score[p][0] for p in cells])  # Eq. 3
        summed = sum(a * e[p] for a, p in zip(alpha, cells, strict=True))  # Eq. 4
        action_loss = action_loss - torch.log(softmax(list(summed))[actions[n]]) / N
        for p in cells:
            cell_loss = cell_loss - torch.log(softmax(list(e[p]))[actions[n]]) / N
        for a in alpha:
            if a > 0:
                entropy_loss = entropy_loss + a * torch.log(a) / N
        logits.append(summed)
        direct.append(torch.stack(alpha))
    loss = action_loss + model.config.cell_loss * cell_loss + model.config.entropy_loss * entropy_loss
    return {"logits": torch.stack(logits), "direct": torch.stack(direct), "loss": loss}


def rtm(
    model: RTM, grid: Grid, source: Tensor, actions: list[int], target: Tensor, scale: float, training: bool,
    only: list[list[int]] | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Eq. 6-8 with its loss. `source` (N, H, W, stack, rows, columns), `target` (N, H, W, rows, columns).

    `only`: the (n, h, w) whose losses count, if not all.
    """
    N, n_actions = len(actions), model.phi.interaction.action.in_features
    pairs = [
        (n, h, w, h_, w_)
        for n in range(N)
        for h in range(grid.H)
        for w in range(grid.W)
        for h_ in range(grid.H)
        for w_ in range(grid.W)
    ]

    def interaction(net: Interaction) -> Vectors:
        """Every pair forwarded on its own; three inputs, dot-multiplied."""
        products = {}
        codes = through({pair: source[pair[0], pair[3], pair[4]] for pair in pairs}, net.encoder.layers, training)
        for pair in pairs:
            n, h, w, h_, w_ = pair
            offset = (h - h_ + grid.H - 1) * (2 * grid.W - 1) + (w - w_ + grid.W - 1)
            action_code = net.action(one_hot(actions[n], n_actions))
            products[pair] = codes[pair] * action_code * net.offset(one_hot(offset, grid.n_offsets))
        return products

    products = interaction(model.gamma.interaction)
    if model.gamma.target is not None:
        seen = through({p: target[p[:3]][None] for p in pairs}, model.gamma.target.layers, training)
        products = {pair: products[pair] * seen[pair] for pair in pairs}
    scores = through(products, model.gamma.head, training)  # Eq. 7
    alpha: Vectors = {}
    for n, h, w in itertools.product(range(N), range(grid.H), range(grid.W)):
        row = [(n, h, w, h_, w_) for h_ in range(grid.H) for w_ in range(grid.W)]
        weights = ATTENTIONS[model.config.attention]([scores[pair][0] for pair in row])  # Eq. 8
        alpha.update(zip(row, weights, strict=True))

    products = interaction(model.phi.interaction)
    blended = model.config.loss == "blend"
    if model.config.phi_pairs == "attended" and not model.config.source_loss and blended:
        products = {pair: p for pair, p in products.items() if alpha[pair] > 0}
    drawn = through(products, model.phi.decoder.layers, training)

    loss = torch.zeros((), dtype=torch.float64)
    predictions = torch.zeros_like(target)
    pixels = target[0, 0, 0].numel()
    n_cells = len(only) if only else N * grid.n_cells
    for n, h, w in itertools.product(range(N), range(grid.H), range(grid.W)):
        if only and [n, h, w] not in only:
            continue
        prediction = torch.zeros_like(target[0, 0, 0])
        likelihood = torch.zeros((), dtype=torch.float64)
        for h_ in range(grid.H):
            for w_ in range(grid.W):
                pair = (n, h, w, h_, w_)
                if pair in drawn:  # Eq. 6
                    guess = scale * torch.tanh(drawn[pair][0])
                    prediction = prediction + alpha[pair] * guess
                    error = ((guess - target[n, h, w]) ** 2).sum()
                    likelihood = likelihood + alpha[pair].clamp(min=1e-9) * torch.exp(-error / 2)
                    if model.config.source_loss:
                        loss = loss + model.config.source_loss * error / (n_cells * grid.n_cells * pixels)
        if blended:
            loss = loss + ((prediction - target[n, h, w]) ** 2).sum() / (n_cells * pixels)
        else:
            loss = loss - torch.log(likelihood) / (n_cells * pixels)
        predictions[n, h, w] = prediction.detach()
    relation = torch.stack([alpha[pair] for pair in pairs]).reshape(N, grid.n_cells, grid.n_cells)
    return {"prediction": predictions, "relation": relation, "loss": loss}
