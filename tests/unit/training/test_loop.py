"""What one iteration hands to PPO: the right stack, action, probability, value and weight in every row."""

import torch

from megareward.envs.interface import Step
from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.ppo.config import PPOConfig
from megareward.ppo.gae import gae
from megareward.ppo.loss import log_prob_of
from megareward.ppo.update import Samples
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from megareward.types import Int, Tensor

CPU = torch.device("cpu")
T, N = 10, 3
PPO = PPOConfig(minibatches=2, epochs=1, learning_rate=1e-2)
CONFIG = TrainConfig(
    method="extrinsic",
    frames=4 * T * N,
    seed=5,
    n_envs=N,
    rollout_steps=T,
    ppo=PPO,
    env=PongConfig(points=1, max_steps=17),
    device="cpu",
)


class Diary:
    """Mini-pong with a list of everything it was sent and answered."""

    def __init__(self) -> None:
        self.game = make_mini("mini-pong", N, CONFIG.env)
        self.actions: list[Tensor] = []
        self.steps: list[Step] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.game, name)

    def reset(self, seed: int) -> Step:
        self.steps.append(self.game.reset(seed))
        return self.steps[-1]

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.actions.append(actions.clone())
        self.game.send(actions)

    def recv(self) -> Step:
        self.steps.append(self.game.recv())
        return self.steps[-1]


def iterate(trainer: Trainer) -> tuple[Samples, Tensor, Tensor, Tensor]:
    """One iteration: what PPO was given, and the stacks, logits and values of all samples before it learnt."""
    caught = []
    ppo = trainer.agent.ppo
    update = ppo.update

    def catch(samples: Samples, *others: object) -> dict[str, Tensor]:
        seen = ppo.observe(torch.arange(T * N))
        with torch.no_grad():
            logits, values = trainer.agent.policy(*seen)
        caught.append((samples, seen.stack, logits, values))
        return update(samples, *others)

    ppo.update = catch
    trainer.iterate()
    ppo.update = update
    [given] = caught
    return given


def test_every_sample_is_what_was_seen_done_and_expected_at_its_step():
    diary = Diary()
    trainer = Trainer(CONFIG, CPU, diary)
    trainer.begin()
    resets = 0
    for i in range(4):
        samples, stack, logits, values = iterate(trainer)
        shown, sent = diary.steps[i * T : (i + 1) * T + 1], torch.stack(diary.actions[i * T : (i + 1) * T])
        first = torch.stack([step.first for step in shown])
        resets += int(first[1:].sum())
        frames = torch.stack([step.frames for step in shown[:-1]])  # (T, N, px_h, px_w)
        assert torch.equal(stack[:, -1], frames.flatten(0, 1))
        assert torch.equal(samples.actions, sent.flatten())
        torch.testing.assert_close(samples.log_probs, log_prob_of(logits, sent.flatten()))
        torch.testing.assert_close(samples.values, values)
        assert torch.equal(samples.weight.reshape(T, N), (~first[1:]).float())
    assert resets > N  # steps that are no transitions were among them


def test_advantages_are_those_of_the_signed_score_and_returns_are_advantages_plus_values():
    diary = Diary()
    trainer = Trainer(CONFIG, CPU, diary)
    trainer.begin()
    for _ in range(2):
        samples, *_ = iterate(trainer)
    shown = diary.steps[T : 2 * T + 1]
    flags = [torch.stack([getattr(step, name) for step in shown]) for name in ("first", "terminated", "truncated")]
    rewards = torch.stack([step.rewards for step in shown[1:]]).sign()
    assert rewards.abs().sum() > 0
    values = trainer.rollout.values[..., 0]
    expected = gae(rewards, values, *flags, discount=0.99, gae_lambda=PPO.gae_lambda, episodic=True)
    torch.testing.assert_close(samples.advantages, expected.flatten())
    torch.testing.assert_close(samples.returns[:, 0], (expected + values[:-1]).flatten())


def test_frames_and_iterations_are_counted():
    trainer = Trainer(CONFIG, CPU)
    trainer.begin()
    trainer.iterate()
    trainer.iterate()
    assert (trainer.iteration, trainer.frames) == (2, 2 * T * N)
