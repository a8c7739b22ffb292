"""Objects by sight and rules about them, on mini games whose true state is known."""

import pytest
import safetensors.torch
import torch

from megareward.envs.mini import mini_config
from megareward.objects.rules import FARTHEST
from megareward.observers.interface import Seen
from megareward.observers.objects import ATTRIBUTES, EFFECTS, OBJECTS, SLOTS, ObjectObserver
from megareward.rewards.settings import OomdpConfig
from megareward.training.clock import Clock
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from tests.unit.rewards.recordings import NoWaiting

N, T = 16, 64
OWN = {"mini-pong": ("paddle_y", 0), "mini-breakout": ("bar_x", 1)}
"""Where the game keeps the player's place, and on which axis it moves."""


def trainer_of(game: str, **options: object) -> tuple[Trainer, ObjectObserver]:
    config = TrainConfig(
        method="oomdp",
        game=game,
        n_envs=N,
        rollout_steps=T,
        seed=3,
        env=mini_config(game, **options),
        reward=OomdpConfig(n_slots=8, background_frames=2 * N * T),
    )
    trainer = Trainer(config, torch.device("cpu"))
    trainer.begin()
    observer = trainer.observers["objects"]
    assert isinstance(observer, ObjectObserver)
    return trainer, observer


def learn(trainer: Trainer, observer: ObjectObserver, rollouts: int) -> dict[str, float]:
    for _ in range(rollouts):
        trainer.collector.collect(Clock(), random=True)
        metrics = observer.learn(trainer.rollout)
        trainer.rollout.roll()
    return {name: float(value) for name, value in metrics.items()}


def foreseen(trainer: Trainer, game: str) -> tuple[float, float]:
    """Shares of one rollout: of the player's true moves that were known before, and of those that came true."""
    name, axis = OWN[game]
    known, right, moves = 0, 0, 0
    for t in range(T):
        before = getattr(trainer.env.game, name)
        step = trainer.collector.step(t, Clock())
        said = trainer.rollout.fields[EFFECTS][t].view(N, -1, 3)[torch.arange(N), trainer.rollout.actions[t]]
        move = getattr(trainer.env.game, name) - before
        sure = (said[:, 2] > 0) & ~step.first
        moves += int((~step.first).sum())
        known += int(sure.sum())
        expected = torch.zeros(N, 2)
        expected[:, axis] = move / FARTHEST
        right += int((sure & torch.isclose(said[:, :2], expected).all(-1)).sum())
    trainer.rollout.roll()
    return known / moves, right / max(known, 1)


@pytest.mark.slow
@pytest.mark.parametrize("game", OWN)
def test_the_rules_foresee_the_players_move_exactly(game):
    trainer, observer = trainer_of(game)
    learn(trainer, observer, 2)
    assert foreseen(trainer, game)[0] == 0.0  # no rule has been learnt yet: nothing is claimed
    metrics = learn(trainer, observer, 8)
    assert metrics["objects/right"] == 1.0
    known, right = foreseen(trainer, game)
    assert right == 1.0
    assert known >= 0.95
    rules = observer.rules.described(int(observer.rules.agent), 1, OWN[game][1])
    side = "north" if game == "mini-pong" else "west"
    assert rules[-2][f"wall {side} within 0"] is False  # up, or left, is by two pixels where no wall is
    assert rules[0][f"wall {side} within 0"] is True  # the failure condition
    if game == "mini-breakout":  # the first way to the wall has an odd number of pixels: its last step is short
        assert (rules[-1]["wall west within 0"], rules[-1]["wall west within 1"]) == (False, True)


def test_the_players_own_object_comes_first_where_it_truly_is():
    trainer, observer = trainer_of("mini-pong")
    learn(trainer, observer, 4)
    own = trainer.rollout.fields[OBJECTS][0].view(N, -1, len(ATTRIBUTES))[:, 0]
    seen = own[:, 0] == 1
    assert seen.float().mean() > 0.8
    whole = seen & (own[:, 3] * 32 == 6)  # no ball before it
    assert whole.float().mean() > 0.8
    torch.testing.assert_close(own[whole, 1] * 32, trainer.env.game.paddle_y[whole])
    torch.testing.assert_close(own[whole, 2] * 32, torch.full_like(own[whole, 2], 28.0))
    torch.testing.assert_close(own[whole, 4] * 32, torch.full_like(own[whole, 2], 2.0))


def test_before_the_background_is_known_there_are_no_objects():
    trainer, _ = trainer_of("mini-pong")
    trainer.collector.collect(Clock(), random=True)
    assert not trainer.rollout.fields[OBJECTS].any()
    assert not trainer.rollout.fields[EFFECTS].any()


def test_saved_and_loaded_an_observer_says_the_same():
    trainer, observer = trainer_of("mini-breakout")
    _, other = trainer_of("mini-breakout")
    learn(trainer, observer, 3)
    state = safetensors.torch.load(safetensors.torch.save(observer.state_dict()))
    other.load_state_dict(state)
    other.load_running_state(observer.running_state())
    seen = trainer.collector.seen(trainer.rollout.index(0))
    one, two = observer.advance(seen), other.advance(seen)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert one[OBJECTS].any()


def test_groups_that_take_turns_see_the_same_as_all_at_once():
    trainer, observer = trainer_of("mini-pong")
    learn(trainer, observer, 3)
    seen, before = trainer.collector.seen(trainer.rollout.index(0)), observer.running_state()
    whole = observer.advance(seen)
    observer.load_running_state(before)
    groups = [observer.advance(Seen(*(part[rows] for part in seen))) for rows in (slice(0, 6), slice(6, N))]
    for name, values in whole.items():
        assert torch.equal(torch.cat([group[name] for group in groups]), values)


def test_nothing_is_followed_into_a_new_game():
    trainer, observer = trainer_of("mini-pong")
    learn(trainer, observer, 3)
    seen = trainer.collector.seen(trainer.rollout.index(0))
    followed = observer.advance(seen)[SLOTS][..., 1]
    assert followed.any()
    opening = observer.advance(seen._replace(first=torch.ones_like(seen.first)))[SLOTS]
    assert not opening[..., 1:4].any()


def test_looking_at_a_frame_never_waits_for_the_device():
    trainer, observer = trainer_of("mini-pong")
    learn(trainer, observer, 3)
    seen = trainer.collector.seen(trainer.rollout.index(0))
    with NoWaiting():
        observer.advance(seen)


def test_a_forged_index_of_the_rules_is_refused():
    trainer, observer = trainer_of("mini-pong")
    learn(trainer, observer, 3)
    state = observer.rules.state_dict()
    with pytest.raises(ValueError, match="does not fit"):
        observer.rules.load_state_dict({**state, "index": state["index"] + 10**8})
