"""What does a reward encourage? Its mean return per game for four players, before anything is trained on it.

  good     the policy of a run, best of one that was trained on the score
  random   uniformly random actions
  idle     always action 0, which does nothing in most games
  worst    the good policy with its preferences reversed: it likes best what the good one likes least, and dies soon

A reward that is to teach play must give the good player the highest return. Other agents may be compared, such as one
that was trained on the reward: if its return is lower than the good player's, it has not learnt the reward well; if its
return is higher and its score lower, the reward is for something else.

All forms of mega-reward are computed on the same games, so a table of players x forms needs four short plays. Maps are
those of a run, true ones (an oracle), or those of untrained models, whose results cannot be credited to control.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from megareward.control.config import FORMS, OF_PLACES, ControlConfig, LatentConfig, OracleConfig, ThingsConfig
from megareward.control.config import paper as literal
from megareward.counterfactual.mini import Branches
from megareward.errors import UsageError
from megareward.observers.control import ControlObserver, fields_of
from megareward.observers.interface import Observer
from megareward.observers.oracle import Oracle
from megareward.ppo.agent import RandomAgent
from megareward.rewards.mega import held
from megareward.rollout import Decision
from megareward.runs.folder import RunFolder
from megareward.runs.provenance import provenance
from megareward.state import part
from megareward.training.config import TrainConfig, read_config
from megareward.training.evaluate import Player, newest_tensors
from megareward.training.parts import make_observers, world_of
from megareward.types import Bool, Float, Tensor

PLAYERS = ("good", "random", "idle", "worst")
SEED = 3_000_000
"""Seed of the games; far from those of training, evaluation and audits."""


class Idle(RandomAgent):
    """Always action 0."""

    def decide(self, index: Tensor, exponentials: Tensor, policy_on: Tensor) -> Decision:
        decision = super().decide(index, exponentials, policy_on)
        return decision._replace(actions=torch.zeros_like(decision.actions))


def forms_of(control: ControlConfig) -> dict[str, LatentConfig]:
    """Every form of Eq. 11 with otherwise equal settings, and Eq. 10 and 11 as the paper prints them."""
    forms = [form for form in FORMS if form not in OF_PLACES or not control.things.slots]
    own = {form: replace(control.latent, reward=form) for form in forms}
    return {"as printed": literal(ControlConfig()).latent} | own


def discounted(rewards: Float[Tensor, "T N"], over: Bool[Tensor, "T N"], discount: float) -> Float[Tensor, "T N"]:
    """The return from each step on, over the steps played; `over`: the return ends with this step."""
    returns = torch.zeros_like(rewards)
    ahead = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        ahead = rewards[t] + discount * ahead * ~over[t]
        returns[t] = ahead
    return returns


AFTER = 10
"""Steps counted as after an event, its own included."""


def by_event(rewards: Float[Tensor, "T N"], points: Float[Tensor, "T N"]) -> dict[str, float | None]:
    """The mean reward per step in the `AFTER` steps from a point won, from a point lost, and in all other steps; None
    if there is no such step. A step after both kinds counts for both."""

    def after(event: Bool[Tensor, "T N"]) -> Bool[Tensor, "T N"]:
        found = event.clone()
        for lag in range(1, min(AFTER, len(event))):
            found[lag:] |= event[:-lag]
        return found

    won, lost = after(points > 0), after(points < 0)
    steps = {"won": won, "lost": lost, "else": ~won & ~lost}
    return {name: float(rewards[which].mean()) if which.any() else None for name, which in steps.items()}


def probe(
    good: Path,
    *,
    beside: Sequence[Path] = (),
    maps: Path | None = None,
    oracle: int = 0,
    steps: int = 600,
    n_envs: int = 32,
    discount: float = 0.99,
    device: torch.device,
    warn: Callable[[str], None] = print,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """The mean return of every form of mega-reward to each player, from the beginning of a game on.

    good: folder of the run whose policy is the good player.
    beside: runs of the same game whose policies play too, under the names of their folders.
    maps: folder of a run whose control models make the maps; if None, untrained ones do.
    oracle: use true maps instead, following each action for this many steps; mini games only.
    steps, n_envs: how long each player plays, and how many games in parallel.
    discount: of the returns. They are taken from the first step of every game that begins before the last
        3 / (1 - discount) steps, whose future was not played. (From other steps, a reward for the growth of control is
        small for a player that has much control already.)

    Returns {"score": points per 1000 steps by player, "returns": {form: {player: [mean, standard error]}}, "events":
    {form: {player: `by_event`}}, ...}.
    """
    folder = RunFolder.open(good)
    config = read_config(folder, warn)
    learnt, frames = newest_tensors(folder, warn)
    counted = steps - round(3 / (1 - discount))
    if counted < 1:
        raise UsageError(f"--steps is {steps}; with a discount of {discount} use more than {steps - counted}.")
    source, models = config, dict[str, Tensor]()
    if maps is not None:
        own = RunFolder.open(maps)
        source, models = read_config(own, warn), part(newest_tensors(own, warn)[0], "observer.control")
        if not models and not source.uses_oracle:
            raise UsageError(f"{maps} holds no control models; give a run of mega, or leave --maps out.")
    elif not config.tracks_control:
        source = replace(config, method="mega", reward=None)
    if oracle:
        control = replace(source.control, oracle=OracleConfig(oracle), things=ThingsConfig())
        source, models = replace(source, control=control), {}
    forms = forms_of(source.control)
    scores, returns = {}, dict[str, dict[str, list[float]]]()
    events = dict[str, dict[str, dict[str, float | None]]]()
    players = dict.fromkeys(PLAYERS, (config, learnt)) | others(beside, config.game, warn)
    for number, (player, (own_config, weights)) in enumerate(players.items()):
        play = Play(own_config, weights, source, models, forms, player, n_envs, device)
        for done in play.run(steps):
            progress(number * steps + done, len(players) * steps)
        points = torch.stack(play.points)
        scores[player] = 1000 * float(points.mean())
        for name in forms:
            for charge in (False, True):
                paid = play.paid(name, charge)
                each = discounted(paid, play.over, discount)[:counted]
                each = (each * play.opens[:counted]).sum(0) / play.opens[:counted].sum(0)  # (N,)
                row = returns.setdefault(name + ", charge" * charge, {})
                row[player] = [float(each.mean()), float(each.std() / len(each) ** 0.5)]
                events.setdefault(name + ", charge" * charge, {})[player] = by_event(paid, points)
    kind = f"oracle, {oracle} lags" if oracle else "untrained" if maps is None else "learnt"
    return {"game": config.game, "good": folder.path.name, "frames": frames, "maps": kind, "discount": discount} | {
        "steps": steps,
        "n_envs": n_envs,
        "score": scores,
        "returns": returns,
        "events": events,
        "provenance": provenance(device),
    }


def others(
    beside: Sequence[Path], game: str, warn: Callable[[str], None]
) -> dict[str, tuple[TrainConfig, dict[str, Tensor]]]:
    """The config and the weights of further players, by name."""
    found = {}
    for path in beside:
        run = RunFolder.open(path)
        config, name = read_config(run, warn), run.path.resolve().name
        if config.game != game:
            raise UsageError(f"{path} plays {config.game}, the good player {game}; all must play the same game.")
        if name in found or name in PLAYERS:
            raise UsageError(f"Two players would be called {name}; rename the folder {path}.")
        found[name] = config, newest_tensors(run, warn)[0]
    return found


class Play:
    """One player's games, with one control observer per form of the reward."""

    def __init__(
        self,
        config: TrainConfig,
        learnt: Mapping[str, Tensor],
        source: TrainConfig,
        models: Mapping[str, Tensor],
        forms: Mapping[str, LatentConfig],
        player: str,
        n_envs: int,
        device: torch.device,
    ) -> None:
        self.player = Player(config, dict(learnt), n_envs, SEED, device)
        env, collector = self.player.env, self.player.collector
        world = world_of(env, device, SEED)
        if player == "idle":
            collector.agent = Idle(world, collector.rollout.values.shape[-1])
        collector.policy_on.fill_({"random": 0.0, "idle": 0.0, "worst": -1.0}.get(player, 1.0))
        self.observers: dict[str, Observer] = {}
        for name, latent in forms.items():
            own = replace(source, control=replace(source.control, latent=latent))
            self.observers[name] = make_observers(own, env, world, names=("control",), learns=False)["control"]
            if models:
                self.observers[name].load_state_dict(models)
        share_branches([observer for observer in self.observers.values() if isinstance(observer, Oracle)])
        self.points = list[Tensor]()
        self.growth = {name: list[Tensor]() for name in forms}
        self.amount = {name: list[Tensor]() for name in forms}
        """Sum of g of each frame, one more than steps."""
        self.terminated, self.ended, self.first = list[Tensor](), list[Tensor](), list[Tensor]()

    def run(self, steps: int) -> Iterator[int]:
        """Play; yields the number of steps done after each."""
        self.player.begin()
        self.look()
        for t in range(steps):
            step = self.player.step()
            self.look()
            self.terminated.append(step.terminated.cpu())
            self.ended.append((step.terminated | step.truncated | step.first).cpu())
            self.first.append(step.first.cpu())
            self.points.append(step.rewards.cpu())
            yield t + 1
        self.player.env.close()

    def look(self) -> None:
        """Show every observer the newest frames. Their models are the same, so attention is computed once."""
        seen = self.player.collector.seen(self.player.rollout.index(0))
        attention = None
        for name, observer in self.observers.items():
            observer.prepare(0)
            if isinstance(observer, ControlObserver):
                stacks, actions, first, rows = seen
                attention = attention or observer.tracker.attend(stacks, actions, rows)
                fields = fields_of(observer.tracker.follow(attention, stacks, first, rows))
            else:
                fields = observer.advance(seen)
            self.growth[name].append(fields["mega_reward"].cpu())
            self.amount[name].append(held(fields).cpu())

    @property
    def opens(self) -> Bool[Tensor, "T N"]:
        """The steps from the first frame of a game."""
        first = torch.stack(self.first)
        return torch.cat([torch.ones_like(first[:1]), first[:-1]])

    @property
    def over(self) -> Bool[Tensor, "T N"]:
        """The steps that ended a return."""
        return torch.stack(self.ended)

    def paid(self, name: str, charge: bool) -> Float[Tensor, "T N"]:
        """The rewards of a form; with the charge, the reward at an end is minus all control held."""
        growth, amount = torch.stack(self.growth[name][1:]), torch.stack(self.amount[name][:-1])
        return torch.where(torch.stack(self.terminated), -amount, growth) if charge else growth


class SharedBranches:
    """The branches of a game for several oracles that ask in turn; they are computed once per step."""

    def __init__(self, branches: Branches, users: int) -> None:
        self.branches, self.users, self.calls = branches, users, 0
        self.env = branches.env

    def forget(self) -> None:
        if self.calls == 0:
            self.branches.forget()

    def step(self, *seen: Tensor) -> Tensor:
        if self.calls % self.users == 0:
            self.found = self.branches.step(*seen)
        self.calls += 1
        return self.found


def share_branches(oracles: list[Oracle]) -> None:
    if oracles:
        shared = SharedBranches(oracles[0].branches, len(oracles))
        for oracle in oracles:
            oracle.branches = cast(Branches, shared)


def table(result: dict[str, Any]) -> str:
    """The result as text: one row per form, and by how many standard errors the good player's return is the highest."""
    rows = [["form", *result["score"], "good is paid most by"]]
    for name, by_player in result["returns"].items():
        others = {player: value for player, value in by_player.items() if player != "good"}
        rival = max(others, key=lambda player: others[player][0])
        gap, errors = (
            by_player["good"][0] - others[rival][0],
            (by_player["good"][1] ** 2 + others[rival][1] ** 2) ** 0.5,
        )
        cells = [f"{mean:.3g} +- {error:.2g}" for mean, error in by_player.values()]
        verdict = f"{gap / max(errors, 1e-9):.1f} errors" if gap > 0 else f"no, {rival} is"
        rows.append([name, *cells, verdict])
    rows.insert(1, ["score per 1000 steps", *(f"{points:.3g}" for points in result["score"].values()), ""])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    about = f"{result['game']}, maps: {result['maps']}. Mean discounted return ({result['discount']}) of a game."
    return "\n".join([*lines, "", about, "", *event_lines(result)])


def event_lines(result: dict[str, Any]) -> list[str]:
    """Text: the good player's mean reward per step, after points and otherwise."""
    rows = [["form", "after a point won", "after a point lost", "otherwise"]]
    for name, by_player in result["events"].items():
        rows.append([name, *("-" if paid is None else f"{paid:.3g}" for paid in by_player["good"].values())])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, "", f"Mean reward of the good player's steps; {AFTER} steps belong to a point, its own included."]
