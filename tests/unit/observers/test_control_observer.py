"""The control observer: the fields that it declares, and what a run that only plays reads of one that learns."""

from dataclasses import replace

import pytest
import torch

from megareward.envs.mini.games import make_mini
from megareward.observers import build_observer
from megareward.observers.control import ControlObserver
from megareward.observers.interface import Context, Seen
from megareward.training.parts import world_of
from tests.unit.control.small_models import SMALL, changed, copy

N, CPU = 4, torch.device("cpu")
CONFIG = replace(SMALL, H=2, W=2)


def observer(seed: int = 0, **options: bool) -> ControlObserver:
    env = make_mini("mini-pong", N)
    own = build_observer("control", Context(world_of(env, CPU, seed), env, CONFIG, settings=None, **options))
    assert isinstance(own, ControlObserver)
    return own


def seen(seed: int, first: bool = False) -> Seen:
    generator = torch.Generator().manual_seed(seed)
    stacks = torch.randint(256, (N, 4, 32, 32), dtype=torch.uint8, generator=generator)
    return Seen(stacks, torch.arange(N) % 3, torch.full((N,), first), torch.arange(N))


@pytest.mark.parametrize("with_relation", [False, True])
def test_it_records_the_fields_that_it_declares(with_relation):
    own = observer(with_relation=with_relation)
    own.prepare(0)
    fields = own.advance(seen(0, first=True))
    assert {name: tuple(values.shape[1:]) for name, values in fields.items()} == {f.name: f.shape for f in own.fields}
    assert ("relation" in fields) == with_relation
    assert [f.name for f in own.fields if f.picture] == ["direct", "g"]


def test_g_is_shown_between_zero_and_one_clipped_or_not():
    clipped = {f.name: f.scale for f in observer().fields}
    latent = replace(CONFIG.latent, combine="sum", clip=False, rho=0.9)
    env = make_mini("mini-pong", N)
    config = replace(CONFIG, latent=latent)
    unclipped = ControlObserver(Context(world_of(env, CPU, 0), env, config, settings=None)).fields
    assert clipped["g"] == 1.0
    assert {f.name: f.scale for f in unclipped}["g"] == pytest.approx(0.1)


@pytest.mark.parametrize("overlaps", [False, True])
def test_who_only_plays_takes_the_models_of_who_learns_and_no_more(overlaps):
    """With overlap they are the newest, not those of the lagged copy."""
    learns, plays = observer(overlaps=overlaps), observer(seed=5, learns=False)
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (6, N, 32, 32), dtype=torch.uint8, generator=generator)
    actions, first = torch.randint(3, (5, N), generator=generator), torch.zeros(6, N, dtype=torch.bool)
    assert learns.schedule is not None
    learns.schedule.begin(frames, actions, first)
    learns.finish()
    plays.load_state_dict(copy(learns.state_dict()))
    newest = learns.schedule.learner.models
    assert plays.schedule is None
    assert not changed(newest.state_dict(), plays.state_dict())
    assert bool(changed(learns.models.modules.state_dict(), plays.models.modules.state_dict())) == overlaps


def test_the_running_games_go_on_from_their_own_state():
    through, resumed = observer(), observer()
    for t in range(3):
        through.prepare(0)
        through.advance(seen(t, first=t == 0))
    resumed.load_running_state(copy(through.running_state()))
    for t in range(3, 5):
        fields = []
        for own in (through, resumed):
            own.prepare(0)
            fields.append(own.advance(seen(t)))
        assert all(torch.equal(fields[0][name], fields[1][name]) for name in fields[0])
    assert any(tensor.any() for tensor in through.changed())
