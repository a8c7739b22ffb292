"""Branches of running mini games: what would the screen show now, had one action of the past been another?

At every step each game is copied once per alternative action. A copy takes that action once, then repeats whatever the
game itself does; its random numbers are the game's own. The cells in which its frame differs n steps later are what the
action n steps ago controls now. A branch lives until

  - it is `lags` steps old,
  - its state is the game's own again: from then on nothing can differ,
  - the game's episode ends: nothing crosses a reset,
  - its own episode ends while the game's goes on. Its last frame still counts; after it there is nothing to compare.
    (A new episode in its place would call every cell controlled, although the agent would see none of it.)

Branches that meet in the same state stay together for ever, so they are kept as one world that counts its members:
a paddle that was moved up five steps ago or six is in the same place now.
"""

import math
from collections.abc import Mapping

import torch

from megareward.cells import any_in_cells
from megareward.control.grid import Grid
from megareward.envs.mini.base import MiniGame
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Branches:
    """All living branches of N games. Call `step` after each step of the games."""

    def __init__(self, env: MiniGame, grid: Grid, lags: int) -> None:
        self.env, self.grid, self.lags = env, grid, lags
        self.everyone = torch.arange(env.n_envs, device=env.device)
        self.others = torch.arange(1, env.n_actions, device=env.device)
        """Added to an action, modulo their number, they give the alternatives to it."""
        self.forget()

    def forget(self) -> None:
        """Restart from the games as they are."""
        self.before = self.env.select(self.everyone)
        self.worlds = self.env.select(self.everyone[:0])
        self.owner = self.everyone[:0]
        """(W,) the game that each world is a branch of."""
        self.members = torch.zeros(0, self.lags, device=self.env.device)
        """(W, L) how many alternatives to the action n steps ago lead to this world, at [w, n - 1]."""

    def step(
        self, actions: Int[Tensor, "N"], first: Bool[Tensor, "N"], frames: UInt8[Tensor, "N px_h px_w"]
    ) -> Float[Tensor, "N L HW"]:
        """The games took `actions` and show `frames`. Returns how many alternatives to the action n steps ago would
        show something else in each cell now, at [game, n - 1, cell]."""
        going_on = ~first
        parents = self.everyone[going_on].repeat_interleave(len(self.others))
        alternatives = ((actions[going_on, None] + self.others) % self.env.n_actions).flatten()
        kept = going_on[self.owner].nonzero().flatten()
        owner = torch.cat([self.owner[kept], parents])
        members = torch.zeros(len(owner), self.lags, device=self.env.device)
        members[: len(kept), 1:] = self.members[kept, :-1]  # every branch is a step older
        members[len(kept) :, 0] = 1
        worlds = joined(self.worlds.select(kept), self.before.select(parents))
        shown = worlds.step(torch.cat([actions[owner[: len(kept)]], alternatives])).frames

        differs = any_in_cells(shown != frames[owner], self.grid.H, self.grid.W).float()  # (W, HW)
        changed = torch.zeros(self.env.n_envs, self.lags, self.grid.n_cells, device=self.env.device)
        changed.index_add_(0, owner, members[:, :, None] * differs[:, None, :])

        self.before = self.env.select(self.everyone)
        table = state_table(worlds)
        over = self.env.progress.over[owner] | worlds.progress.over
        back_again = (table == state_table(self.before)[owner]).all(1)
        outlived = members[:, :-1].sum(1) == 0
        alive = (~(over | back_again | outlived)).nonzero().flatten()
        distinct, place = merged(table[alive])
        self.worlds, self.owner = worlds.select(alive[distinct]), owner[alive[distinct]]
        self.members = torch.zeros(len(distinct), self.lags, device=self.env.device)
        self.members.index_add_(0, place, members[alive])
        return changed

    def state_dict(self) -> dict[str, Tensor]:
        worlds = {f"worlds.{name}": value for name, value in self.worlds.state_dict().items()}
        return worlds | {"owner": self.owner.clone(), "members": self.members.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state; the games themselves must have been restored before."""
        self.forget()
        self.owner, self.members = (state[name].to(self.env.device) for name in ("owner", "members"))
        self.worlds = self.env.select(self.owner)  # as many as there were; their own state follows
        self.worlds.load_state_dict({name[7:]: value for name, value in state.items() if name.startswith("worlds.")})


def joined(a: MiniGame, b: MiniGame) -> MiniGame:
    """The environments of both, a's first."""
    both = (a if a.n_envs else b).select(torch.zeros(a.n_envs + b.n_envs, dtype=torch.int64, device=a.device))
    mine, yours = a.state_dict(), b.state_dict()
    both.load_state_dict({name: torch.cat([mine[name], yours[name]]) for name in mine})
    return both


def state_table(games: MiniGame) -> Float[Tensor, "N columns"]:
    """Every environment's whole state as one row. Equal rows have equal futures under equal actions."""
    values = (*games.progress, *games.game)
    return torch.cat([value.reshape(len(value), math.prod(value.shape[1:])).double() for value in values], 1)


def merged(table: Float[Tensor, "N columns"]) -> tuple[Int[Tensor, "M"], Int[Tensor, "N"]]:
    """One example of every distinct row, and for each row the number of its example.

    Rows are found by a hash and then compared, so that a collision can miss a merge but never merge different rows.
    """
    rows = torch.arange(len(table), device=table.device)
    odd = 2 * torch.arange(1, table.shape[1] + 1, device=table.device) * 0x9E3779B97F4A7C1 + 1
    _, kind = torch.unique((table.view(torch.int64) * odd).sum(1), return_inverse=True)
    example = rows.new_full((len(table),), len(table)).scatter_reduce(0, kind, rows, "amin")[kind]
    example = torch.where((table == table[example]).all(1), example, rows)
    return torch.unique(example, return_inverse=True)
