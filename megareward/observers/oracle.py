"""The truth in place of learnt maps, for diagnosis on mini games: how well would an agent do if its control models made
no mistakes? Never for real training: it plays every alternative action in copies of the game.

From influence to g
-------------------
Branching shows which cells of frame t the action n steps ago controls: I_n(t), each 0 or 1. Eq. 9 then reads
g_t = sum_n rho^(n-1) c_n I_n(t); what is left to choose is how much one controlled cell counts:

  chained   c_n = 1 / (cells that this action controlled at once), which is what Eq. 5 gives with a true relation.
            `direct` sums to 1, so an action that moved two cells gave each 1/2; each row of the relation sums to 1, so
            a cell takes over the average control of the cells it relies on. It never gets more than they had, but any
            number of cells may rely on the same one: a map's largest value cannot grow, its sum can. (A map that
            sums to 1 at every lag would make the reward a clock, whatever the agent did.)
  binary    c_n = 1: a cell is controlled or not.

With `above_chance` c_n is what exceeds 1 / HW. The rest is Eq. 10 and 11 by the same `control.latent.advance`
that learnt maps go through, all options of `LatentConfig` included: what earlier actions still control,
sum_{n>1} rho^(n-2) c_n I_n (with `combine` max the largest of these), takes the place of the control that the relation
would have passed on. With all options switched off g is Eq. 9, cut after `lags` steps. Without `hold`, what is passed
on is found anew in every step, so a background or a flash has an effect in that step only.
"""

from collections.abc import Mapping

import torch

from megareward.control.background import Background
from megareward.control.flash import is_flash
from megareward.control.grid import Grid
from megareward.control.latent import advance
from megareward.control.observation import changed_cells
from megareward.counterfactual.mini import Branches
from megareward.envs.mini.base import MiniGame
from megareward.envs.wrapper import game_of
from megareward.errors import UsageError
from megareward.observers.control import control_fields, control_metrics
from megareward.observers.interface import Context, Observer, Seen
from megareward.rollout import Fields, Rollout
from megareward.state import State, joined, part
from megareward.types import Tensor


class Oracle(Observer):
    """A control observer with true maps. It branches the games: call `advance` once after each of their steps."""

    def __init__(self, context: Context) -> None:
        env, config, world = game_of(context.env), context.control, context.world
        self.noisy = env is not context.env
        if not isinstance(env, MiniGame):
            raise UsageError(
                f"control.oracle.lags is {config.oracle.lags}, but {type(env).__name__} cannot be branched; "
                "an oracle knows mini games only."
            )
        self.latent, self.normalise, lags = config.latent, config.oracle.normalise, config.oracle.lags
        self.grid = Grid(config.H, config.W, *env.frame_shape)
        self.fields = control_fields(self.grid, self.latent)
        self.branches = Branches(env, self.grid, lags)
        self.background = Background(world.frame_shape, config.background_frames, world.device)
        self.discounts = self.latent.rho ** torch.arange(lags, device=world.device)
        self.g = torch.zeros(env.n_envs, self.grid.n_cells, device=world.device)
        self.memory = torch.zeros_like(self.g)
        self.last = torch.zeros(env.n_envs, *world.frame_shape, dtype=torch.uint8, device=world.device)
        self.size = torch.ones(env.n_envs, lags, device=world.device)
        """How many cells each of the last actions controlled at once."""
        self.started = False

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        """Mini games come in one group. There is no relation: true control is found without one."""
        latent, first = self.latent, seen.first
        newest = self.branches.env.frames() if self.noisy else seen.stacks[:, -1]
        if not self.started:
            self.branches.forget()
            first = torch.ones_like(first)
        self.started = True
        influence = (self.branches.step(seen.actions, first, newest) > 0).float()  # (N, L, HW)
        at_once = influence[:, 0].sum(-1).clamp(min=1)  # an action may show its effect later than at once
        self.size = torch.cat([at_once[:, None], self.size[:, :-1]], 1)
        direct = influence[:, 0] / at_once[:, None]
        counts = 1 / self.size if self.normalise == "chained" else torch.ones_like(self.size)  # (N, L)
        if latent.above_chance:
            counts = (counts - 1 / self.grid.n_cells).clamp(min=0)
        influence = influence * counts[:, :, None]
        earlier = self.discounts[:-1, None] * influence[:, 1:]  # (N, L - 1, HW)
        passed_on = earlier.amax(1) if latent.combine == "max" and earlier.shape[1] else earlier.sum(1)
        if latent.relation == "itself":
            passed_on = self.g
        elif latent.clip:  # no more can be passed on than there was
            passed_on = passed_on.clamp(max=1)
        flash = is_flash(self.last, newest, latent.flash) if latent.flash < 1 else None
        background = self.background.shown(newest, self.grid) if latent.background < 1 else None
        changed = changed_cells(self.last, newest, self.grid)
        after = advance(self.g, self.memory, influence[:, 0], passed_on, first, flash, background, changed, latent)
        self.g, self.memory, self.last = after.g, after.memory, newest.clone()
        return {"direct": direct, "g": after.g, "mega_reward": after.mega_reward}

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        """Learn the background, and nothing else."""
        self.background.observe(rollout.recorded().frames.flatten(0, 1))
        return control_metrics(rollout, self.latent)

    def state_dict(self) -> State:
        return joined(background=self.background.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if strange := sorted(name for name in state if not name.startswith("background.")):
            raise UsageError(f"An oracle learns no maps, but was given {strange[0]}; this checkpoint is not its own.")
        self.background.load_state_dict(part(state, "background"))

    def running_state(self) -> State:
        own = {name: getattr(self, name).clone() for name in ("g", "memory", "last", "size")}
        return own | {"started": torch.tensor(self.started)} | joined(branches=self.branches.state_dict())

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        for name in ("g", "memory", "last", "size"):
            setattr(self, name, state[name].to(self.g.device))
        self.started = bool(state["started"])
        self.branches.load_state_dict(part(state, "branches"))
