"""The oracle's maps against the truth by definition, the equations, and a whole run."""

import dataclasses
from itertools import pairwise

import pytest
import torch

from megareward.control.config import FORMS, ControlConfig, LatentConfig, OracleConfig
from megareward.control.flash import is_flash
from megareward.control.latent import advance, remember
from megareward.control.observation import changed_cells
from megareward.counterfactual.mini import Branches
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.envs.mini.demon import MiniDemon
from megareward.envs.mini.games import make_mini
from megareward.errors import UsageError
from megareward.observers.control import control_fields
from megareward.observers.interface import Context, Seen
from megareward.observers.oracle import Oracle
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from megareward.training.parts import world_of
from megareward.training.presets import debug
from megareward.training.saving import load, state_of, tensors_of
from tests.small_envs import IdentityEnv

N, T, LAGS, CPU = 3, 60, 6, torch.device("cpu")
HW, RHO = 4 * 8, 0.99
LITERAL = LatentConfig(
    combine="sum", hold=False, clip=False, above_chance=False, background=1.0, flash=1.0, reward="difference"
)


def context(env, latent=LITERAL, normalise="chained"):
    control = ControlConfig(H=4, W=8, latent=latent, oracle=OracleConfig(LAGS, normalise))
    return Context(world_of(env, CPU, seed=0), env, control, settings=None)


@dataclasses.dataclass
class Moment:
    """What the oracle says of one step of N games, with the plain influence (N, L, HW) beside it."""

    fields: dict
    influence: torch.Tensor
    frames: torch.Tensor
    first: torch.Tensor

    def __getattr__(self, name):
        return self.fields[name]


def watched(latent, normalise="chained", game="mini-breakout", seed=4, knows_background=False, **options):
    """The first frame and T steps."""
    env = make_mini(game, N, mini_config(game, max_steps=25, **options))
    oracle = Oracle(context(env, latent, normalise))
    if knows_background:
        oracle.background.observe(screens(game, seed))
    step = env.reset(seed)
    branches = Branches(env, oracle.grid, LAGS)
    generator, everyone = torch.Generator().manual_seed(seed), torch.arange(N)
    actions, influence = torch.zeros(N, dtype=torch.int64), torch.zeros(N, LAGS, HW, dtype=torch.bool)
    moments = []
    for t in range(T + 1):
        if t > 0:
            actions = torch.randint(env.n_actions, (N,), generator=generator)
            step = env.step(actions)
            influence = branches.step(actions, step.first, step.frames) > 0
        oracle.prepare(0)
        fields = oracle.advance(Seen(step.frames[:, None], actions, step.first, everyone))
        moments.append(Moment(fields, influence, step.frames, step.first))
    return moments


def screens(game, seed):
    """Frames of random play."""
    env, generator = make_mini(game, 8), torch.Generator().manual_seed(seed)
    frames = [env.reset(seed).frames]
    for _ in range(20):
        frames.append(env.step(torch.randint(env.n_actions, (8,), generator=generator)).frames)
    return torch.cat(frames)


def sizes(moments):
    """(T + 1, N): how many cells the action before each frame controlled at once."""
    return torch.stack([moment.influence[:, 0].sum(-1).clamp(min=1).float() for moment in moments])


def counted(moments, t, above_chance=False):
    """(N, L, HW) what each of the last actions counts in each cell of frame t, by the definition."""
    at_once, counts = sizes(moments), torch.zeros(N, LAGS, HW)
    for n in range(1, min(LAGS, t) + 1):
        each = 1 / at_once[t - n + 1] - (1 / HW if above_chance else 0)
        counts[:, n - 1] = moments[t].influence[:, n - 1] * each.clamp(min=0)[:, None]
    return counts


def discounted(counts):
    """Eq. 9 over the lags: the youngest undiscounted."""
    return torch.einsum("n,bnc->bc", RHO ** torch.arange(counts.shape[1]), counts)


@pytest.mark.parametrize("game", MINI_GAMES)
def test_direct_sums_to_one_over_the_cells_that_another_action_would_have_changed(game):
    for moment in watched(LITERAL, "binary", game)[1:]:
        direct = moment.influence[:, 0].float()
        sums = direct.sum(-1, keepdim=True)
        assert torch.equal(moment.direct > 0, moment.influence[:, 0])
        assert torch.allclose(moment.direct, direct / sums.clamp(min=1))
        assert not moment.direct[moment.first].any()
        assert not moment.g[moment.first].any()
        assert not moment.mega_reward[moment.first].any()


def test_without_options_g_is_equation_9_over_the_lags():
    for moment in watched(LITERAL, "binary")[1:]:
        assert torch.allclose(moment.g, discounted(moment.influence.float()))


def test_chained_maps_keep_the_height_that_direct_control_had():
    moments = watched(LITERAL)
    for t, moment in enumerate(moments):
        assert torch.allclose(moment.g, discounted(counted(moments, t)), atol=1e-6)
    assert sizes(moments).max() > 1  # or it would be the same as binary


def test_of_the_larger_g_is_the_strongest_control_that_any_action_has():
    moments = watched(dataclasses.replace(LITERAL, combine="max"))
    powers = RHO ** torch.arange(moments[0].influence.shape[1])[:, None]
    for t, moment in enumerate(moments):
        assert torch.allclose(moment.g, (powers * counted(moments, t)).amax(1), atol=1e-6)


def test_hold_and_clip_keep_g_between_zero_and_one_and_spread_pays_for_new_cells():
    moments = watched(dataclasses.replace(LITERAL, hold=True, clip=True, reward="spread"), "binary")
    for before, moment in pairwise(moments):
        assert moment.g.min() >= 0
        assert moment.g.max() <= 1
        later = discounted(moment.influence[:, 1:].float()).clamp(max=1)
        gained = (torch.maximum(before.g, later) - before.g).sum(-1)
        assert torch.allclose(moment.mega_reward, gained.masked_fill(moment.first, 0), atol=1e-5)
    assert sum(float(moment.mega_reward.sum()) for moment in moments) > 0


def test_the_difference_form_pays_what_g_gained():
    for before, moment in pairwise(watched(LITERAL)):
        gained = (moment.g - before.g).sum(-1)
        assert torch.allclose(moment.mega_reward, gained.masked_fill(moment.first, 0), atol=1e-5)


# Every option of LatentConfig, as learnt maps have them ---------------------------------------------------------------


def test_above_chance_takes_an_even_maps_share_from_every_action_but_not_from_direct():
    moments, plain = watched(dataclasses.replace(LITERAL, above_chance=True)), watched(LITERAL)
    for t, (moment, without) in enumerate(zip(moments, plain, strict=True)):
        assert torch.allclose(moment.g, discounted(counted(moments, t, above_chance=True)), atol=1e-6)
        assert torch.equal(moment.direct, without.direct)
        assert (moment.g < without.g)[without.g > 0].all()


def test_a_flash_gives_no_control_and_passes_none_on():
    latent = dataclasses.replace(LITERAL, flash=0.5)
    moments = watched(latent, game="mini-pong", seed=1, points=5, death_flash=True)
    flashes = 0
    for t, (before, moment) in enumerate(pairwise(moments), start=1):
        flash = is_flash(before.frames, moment.frames, 0.5) & ~moment.first
        assert torch.allclose(moment.g[flash], RHO * before.g[flash])
        usual = ~flash & ~moment.first
        assert torch.allclose(moment.g[usual], discounted(counted(moments, t))[usual], atol=1e-6)
        flashes += int((flash & before.g.any(-1)).sum())
    assert flashes > 0


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_cells_that_show_background_keep_a_share_of_what_was_passed_on(share):
    moments = watched(dataclasses.replace(LITERAL, background=share), knows_background=True)
    behind = screens("mini-breakout", 4).median(0).values
    forgotten = 0
    for t, moment in enumerate(moments):
        counts = counted(moments, t)
        differs = (moment.frames != behind).reshape(N, 4, 8, 8, 4).any(-1).any(2).flatten(1)  # cells of 8 x 4 pixels
        passed_on = discounted(counts[:, 1:])
        expected = RHO * passed_on * torch.where(differs, 1.0, share) + counts[:, 0]
        assert torch.allclose(moment.g, expected.masked_fill(moment.first[:, None], 0), atol=1e-6)
        forgotten += int((~differs & (passed_on > 0)).sum())
    assert forgotten > 0


def test_nothing_is_forgotten_before_a_background_is_known():
    moments = watched(dataclasses.replace(LITERAL, background=0.0))
    for moment, plain in zip(moments, watched(LITERAL), strict=True):
        assert torch.equal(moment.g, plain.g)


def test_a_record_is_what_exceeds_the_memory():
    moments = watched(dataclasses.replace(LITERAL, reward="record"))
    memory, kept_back = torch.zeros(N, HW), 0
    for before, moment in pairwise(moments):
        gained = (moment.g - memory).clamp(min=0).sum(-1).masked_fill(moment.first, 0)
        assert torch.allclose(moment.mega_reward, gained, atol=1e-5)
        kept_back += int((gained < (moment.g - before.g).clamp(min=0).sum(-1) - 1e-3)[~moment.first].sum())
        memory = remember(moment.g, memory, RHO).masked_fill(moment.first[:, None], 0)
    assert kept_back > 0  # some cells came back to what they had had before


@pytest.mark.parametrize("reward", FORMS)
@pytest.mark.parametrize("normalise", ["chained", "binary"])
def test_with_all_options_a_step_is_the_one_that_learnt_maps_go_through(normalise, reward):
    latent = LatentConfig(combine="sum", hold=True, clip=True, above_chance=True, reward=reward)
    moments = watched(latent, normalise, knows_background=True, death_flash=True)
    known = Oracle(context(make_mini("mini-breakout", N), latent))
    known.background.observe(screens("mini-breakout", 4))
    g, memory = torch.zeros(N, HW), torch.zeros(N, HW)
    for t, (before, moment) in enumerate(pairwise(moments), start=1):
        counts = counted(moments, t, above_chance=True)
        if normalise == "binary":
            counts = moment.influence * (1 - 1 / HW)
        passed_on = discounted(counts[:, 1:]).clamp(max=1)
        flash = is_flash(before.frames, moment.frames, latent.flash)
        background = known.background.shown(moment.frames, known.grid)
        changed = changed_cells(before.frames, moment.frames, known.grid)
        after = advance(g, memory, counts[:, 0], passed_on, moment.first, flash, background, changed, latent)
        assert torch.allclose(moment.g, after.g, atol=1e-6)
        assert torch.allclose(moment.mega_reward, after.mega_reward, atol=1e-5)
        g, memory = after.g, after.memory
    assert sum(float(moment.mega_reward.abs().sum()) for moment in moments) > 0


def test_the_oracle_records_the_fields_that_it_declares_which_are_those_of_learnt_maps():
    env = make_mini("mini-pong", N)
    oracle, step = Oracle(context(env)), env.reset(0)
    fields = oracle.advance(Seen(step.frames[:, None], torch.zeros(N, dtype=torch.int64), step.first, torch.arange(N)))
    assert oracle.fields == control_fields(oracle.grid, oracle.latent)
    assert {name: tuple(values.shape[1:]) for name, values in fields.items()} == {
        f.name: f.shape for f in oracle.fields
    }


# Whole runs -----------------------------------------------------------------------------------------------------------


def oracle_run(**changes):
    config = debug(TrainConfig("mega", "mini-demon", seed=1, **changes))
    return dataclasses.replace(config, control=dataclasses.replace(config.control, oracle=OracleConfig(LAGS)))


def test_a_run_with_an_oracle_trains_without_control_models_and_resumes_bit_for_bit(tmp_path):
    whole, cut = Trainer(oracle_run(), CPU), Trainer(oracle_run(), CPU)
    whole.begin()
    cut.begin()
    for _ in range(2):
        whole.iterate()
        cut.iterate()
    resumed = Trainer(oracle_run(), CPU)
    load(resumed, tensors_of(cut), state_of(cut))
    for _ in range(2):
        whole.iterate()
        resumed.iterate()
    expected, found = tensors_of(whole), tensors_of(resumed)
    assert expected.keys() == found.keys()
    learnt = {name.split(".")[2] for name in expected if name.startswith("observer.control.")}
    assert learnt == {"background"}
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    assert whole.rollout.fields["g"].any()


class FlippedDemon(MiniDemon):
    def recv(self):
        step = super().recv()
        return dataclasses.replace(step, rewards=-step.rewards)


def test_flipping_the_games_score_changes_nothing_under_an_oracle():
    weights = []
    for game in (MiniDemon, FlippedDemon):
        config = oracle_run()
        trainer = Trainer(config, CPU, game(config.n_envs, config.env, CPU))
        trainer.begin()
        for _ in range(3):
            trainer.iterate()
        weights.append(trainer.agent.policy.state_dict())
    for name, weight in weights[0].items():
        assert torch.equal(weight, weights[1][name]), name


def test_an_oracle_is_refused_for_games_that_cannot_be_branched():
    with pytest.raises(UsageError, match=r"control\.oracle\.lags is 6, but pong cannot be branched while it is played"):
        TrainConfig("mega", "pong", control=ControlConfig(oracle=OracleConfig(LAGS)))
    with pytest.raises(UsageError, match="IdentityEnv cannot be branched"):
        Oracle(context(IdentityEnv()))


def test_an_oracle_refuses_maps_that_were_learnt():
    oracle = Oracle(context(make_mini("mini-pong", N)))
    with pytest.raises(UsageError, match=r"learns no maps, but was given modules\.w"):
        oracle.load_state_dict(oracle.state_dict() | {"modules.w": torch.zeros(1)})
