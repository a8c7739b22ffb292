"""An empty room, whose answer is known: a skill is where it takes you. And how much a code tells about the place."""

from dataclasses import dataclass

import torch

from megareward.envs.config import EnvConfig, Game
from megareward.envs.interface import Step
from megareward.training.config import TrainConfig
from megareward.training.evaluate import Player
from megareward.types import Float, Int, Tensor

MOVES = torch.tensor([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
SIDE, CELL = 9, 2
"""Cells along a wall, and pixels along a cell."""


@dataclass(frozen=True)
class RoomConfig(EnvConfig):
    steps: int = 16
    """Of a game, which always begins in the middle and ends with a time limit."""


class Room:
    """The player is a bright cell; five actions stay or go to a neighbouring cell, and walls stop it."""

    n_actions, action_names, frame_shape = 5, ("stay", "up", "down", "left", "right"), (SIDE * CELL, SIDE * CELL)
    frame_skip, n_groups = 1, 1

    def __init__(self, n_envs: int, config: RoomConfig, device: torch.device) -> None:
        self.n_envs, self.config, self.device = n_envs, config, device

    def reset(self, seed: int) -> Step:
        self.place = torch.full((self.n_envs, 2), SIDE // 2, dtype=torch.int64)
        self.time = torch.full((self.n_envs,), self.config.steps)
        self.send(torch.zeros(self.n_envs, dtype=torch.int64))
        return self.recv()

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.actions = actions

    def recv(self) -> Step:
        first = self.time == self.config.steps
        self.time = (self.time + 1) * ~first
        moved = (self.place + MOVES[self.actions]).clamp(0, SIDE - 1)
        self.place = torch.where(first[:, None], SIDE // 2, moved)
        cells = torch.zeros(self.n_envs, SIDE, SIDE, dtype=torch.uint8)
        cells[torch.arange(self.n_envs), self.place[:, 0], self.place[:, 1]] = 255
        frames = cells.repeat_interleave(CELL, 1).repeat_interleave(CELL, 2)
        over, no = self.time == self.config.steps, torch.zeros(self.n_envs, dtype=torch.bool)
        return Step(frames, torch.zeros(self.n_envs), no, over, first, over)

    def state_dict(self) -> dict[str, Tensor]:
        return {"place": self.place.clone(), "time": self.time.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.place, self.time = state["place"].clone(), state["time"].clone()

    def close(self) -> None:
        pass


def make(
    name: str, n_envs: int, config: RoomConfig, *, hide_score: bool, device: torch.device, in_groups: bool
) -> Room:
    return Room(n_envs, config, device)


ROW = Game("room", "Room", RoomConfig, f"{__name__}:make", actions=5, score="not shown")


def ends(config: TrainConfig, learnt: dict[str, Tensor], steps: int, games: int = 2048) -> tuple[Tensor, Tensor]:
    """Codes (games,) and the cells (games, 2) in which they are after so many steps, as an evaluation plays."""
    player = Player(config, learnt, games, seed=77, device=torch.device("cpu"))
    player.begin()
    for _ in range(steps):
        skills = player.field("skill").clone()
        player.step()
    return skills, player.env.place


def information(skills: Int[Tensor, "M"], places: Int[Tensor, "M 2"]) -> float:
    """Mutual information of code and cell in nats, from how often they occur together."""
    both = torch.zeros(int(skills.max()) + 1, SIDE * SIDE)
    both.index_put_((skills, places[:, 0] * SIDE + places[:, 1]), torch.ones(len(skills)), accumulate=True)
    both = both / both.sum()
    independent = both.sum(1, keepdim=True) * both.sum(0, keepdim=True)
    return float((both * (both / independent).log().nan_to_num(neginf=0.0)).sum())


def means(skills: Int[Tensor, "M"], places: Int[Tensor, "M 2"]) -> Float[Tensor, "K 2"]:
    """Where each code ends on average."""
    return torch.stack([places[skills == k].float().mean(0) for k in range(int(skills.max()) + 1)])
