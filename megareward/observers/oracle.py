"""The truth in place of learnt maps, for diagnosis on mini games: how well would an agent do if its control models made
no mistakes? Never for real training: it plays every alternative action in copies of the game.

From influence to g
-------------------
Branching says which cells of frame t the action n steps ago controls: I_n(t), each 0 or 1. Eq. 9 then reads
g_t = sum_n rho^(n-1) c_n I_n(t); what is left to choose is how much one controlled cell counts:

  chained   c_n = 1 / (cells that this action controlled at once), which is what Eq. 5 gives with a true relation.
            `direct` sums to 1, so an action that moved two cells gave each 1/2; each row of the relation sums to 1, so
            a cell takes over the average control of the cells it relies on. It never gets more than they had, but any
            number of cells may rely on the same one: a map's largest value cannot grow, its sum can. (A map that
            sums to 1 at every lag would make the reward a clock, whatever the agent did.)
  binary    c_n = 1: a cell is controlled or not.

The rest is Eq. 10 and 11 with all options of `LatentConfig`: what earlier actions still control,
sum_{n>1} rho^(n-2) c_n I_n, takes the place of the control that the relation would have passed on. With hold and clip
switched off g is Eq. 9, cut after `lags` steps.
"""

from collections.abc import Mapping

import torch

from megareward.control.config import ControlConfig
from megareward.control.grid import Grid
from megareward.control.latent import clear, mega_reward
from megareward.counterfactual.mini import Branches
from megareward.envs.interface import BatchedEnv
from megareward.envs.mini.base import MiniGame
from megareward.errors import UsageError
from megareward.observers.tracker import Control
from megareward.types import Bool, Int, Tensor, UInt8


class NothingToLearn:
    """Takes the place of the control models beside an oracle."""

    def __init__(self, config: ControlConfig, frame_shape: tuple[int, int], device: torch.device) -> None:
        self.config, self.frame_shape, self.device = config, frame_shape, device
        self.grid = Grid(config.H, config.W, *frame_shape)

    def update(
        self, frames: UInt8[Tensor, "S N px_h px_w"], actions: Int[Tensor, "T N"], first: Bool[Tensor, "S N"]
    ) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if state:
            raise UsageError(
                f"An oracle learns nothing, but was given {sorted(state)[0]}; this checkpoint is not its own."
            )


class OracleTracker:
    """A `ControlTracker` that knows. It reads the games themselves, so call `step` once after each of their steps."""

    def __init__(self, env: BatchedEnv, config: ControlConfig) -> None:
        if not isinstance(env, MiniGame):
            raise UsageError(
                f"control.oracle.lags is {config.oracle.lags}, but {type(env).__name__} cannot be branched; "
                "an oracle knows mini games only."
            )
        self.models = NothingToLearn(config, env.frame_shape, env.device)
        self.latent, self.normalise = config.latent, config.oracle.normalise
        lags, HW = config.oracle.lags, self.models.grid.n_cells
        self.branches = Branches(env, self.models.grid, lags)
        self.discounts = self.latent.rho ** torch.arange(lags, device=env.device)
        self.g = torch.zeros(env.n_envs, HW, device=env.device)
        self.size = torch.ones(env.n_envs, lags, device=env.device)
        """How many cells each of the last actions controlled at once."""
        self.started = False

    @torch.no_grad()
    def step(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        first: Bool[Tensor, "N"],
        with_relation: bool = False,
        group: int = 0,
    ) -> Control:
        """`stack` ends with the newest frame; `actions` led to it; `first`: it opens an episode. There is no relation:
        nothing was guessed from cell to cell. Mini games come in one group."""
        if not self.started:
            self.branches.forget()
            first = torch.ones_like(first)
        self.started = True
        influence = (self.branches.step(actions, first, stack[:, -1]) > 0).float()  # (N, L, HW)
        now = influence[:, 0].sum(-1).clamp(min=1)  # an action may show its effect later than at once
        self.size = torch.cat([now[:, None], self.size[:, :-1]], 1)
        direct = influence[:, 0] / now[:, None]
        if self.normalise == "chained":
            influence = influence / self.size[:, :, None]

        latent = self.latent
        passed_on = torch.einsum("n,bnc->bc", self.discounts[:-1], influence[:, 1:])
        if latent.clip:  # nobody can pass on more than there was
            passed_on = passed_on.clamp(max=1)
        if latent.hold:
            passed_on = torch.maximum(self.g, passed_on)
        g = latent.rho * passed_on + influence[:, 0]
        g = clear(g.clamp(0, 1) if latent.clip else g, first)
        reward = mega_reward(g, self.g, passed_on, latent.reward).masked_fill(first, 0)
        self.g = g
        return Control(direct, g.clone(), reward, None)

    def state_dict(self) -> dict[str, Tensor]:
        state = {"g": self.g.clone(), "size": self.size.clone(), "started": torch.tensor(self.started)}
        return state | {f"branches.{name}": value for name, value in self.branches.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state; the games themselves must have been restored before."""
        self.g, self.size = (state[name].to(self.g.device) for name in ("g", "size"))
        self.started = bool(state["started"])
        self.branches.load_state_dict(
            {name.removeprefix("branches."): value for name, value in state.items() if name.startswith("branches.")}
        )
