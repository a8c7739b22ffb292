"""The parts of a run, made from its config: games, observers, rollout, agent, collector. Used to train and to play."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from megareward.cuda.streams import CudaStreams
from megareward.envs.interface import BatchedEnv
from megareward.envs.make import make_env
from megareward.envs.noise import NoisyScreen
from megareward.envs.stabilised import Stabilised
from megareward.observers import build_observer
from megareward.observers.interface import Context, Observer
from megareward.ppo.agent import Agent, FrozenAgent, PPOAgent, RandomAgent
from megareward.ppo.policy import PolicyInputs
from megareward.reward_stream import RewardStream
from megareward.rewards.extrinsic import beside_the_score
from megareward.rewards.interface import ScaledRewards
from megareward.rollout import Rollout
from megareward.training.collect import Collector
from megareward.training.config import TrainConfig
from megareward.training.fast_collect import FastCollector
from megareward.world import World


def make_game(config: TrainConfig, n_envs: int, device: torch.device, *, in_groups: bool = False) -> BatchedEnv:
    """The game that the config names, with camera stabilisation and noise if the config asks for them."""
    hide = config.hides_score
    env = make_env(config.game, n_envs, config.env, hide_score=hide, device=device, in_groups=in_groups)
    return as_the_agent_sees_it(config, env)


def as_the_agent_sees_it(config: TrainConfig, env: BatchedEnv) -> BatchedEnv:
    env = Stabilised(env, config.stabilise) if config.stabilise else env
    return NoisyScreen(env, config.noise) if config.noise.on else env


def world_of(env: BatchedEnv, device: torch.device, seed: int, config: TrainConfig | None = None) -> World:
    """The `World` of a run. Without `config` it is for observers only."""
    known: tuple[Any, ...] = ()
    if config is not None:
        graphs = config.ppo.cuda_graphs and device.type == "cuda"
        known = (config.episodic, (config.control.H, config.control.W), graphs)
    return World(env.n_envs, env.n_actions, env.frame_shape, device, seed, *known)


def make_observers(
    config: TrainConfig,
    env: BatchedEnv,
    world: World,
    *,
    names: Sequence[str] | None = None,
    streams: CudaStreams | None = None,
    learns: bool = True,
    with_relation: bool = False,
) -> dict[str, Observer]:
    """The observers that the config asks for, or only those in `names`."""
    overlaps = learns and config.overlaps_on(world.device.type)
    context = Context(
        world,
        env,
        config.control,
        config.reward,
        overlaps,
        streams,
        learns,
        random_steps=config.warmup_iterations * config.batch,
        starts_from=config.start_from is not None,
        with_relation=with_relation,
    )
    return {name: build_observer(name, context) for name in (config.observers if names is None else names)}


def make_rewards(config: TrainConfig, world: World) -> ScaledRewards:
    """The method's own rewards and, only if the config says `with_score`, the game's score beside them."""
    terms = config.method_row.build(config.reward, world)
    if config.with_score:
        terms = beside_the_score(terms, config.score, world)
    return ScaledRewards(terms, world.n_envs, world.device)


def make_rollout(
    config: TrainConfig, world: World, observers: dict[str, Observer], steps: int, n_streams: int
) -> Rollout:
    """A rollout with buffers for all fields of the observers, and for game rewards only if the run uses them."""
    fields = [field for observer in observers.values() for field in observer.fields]
    n_streams = max(n_streams, 1)
    return Rollout(steps, world, config.policy.stack, fields=fields, n_streams=n_streams, keeps_score=config.uses_score)


def make_agent(
    config: TrainConfig,
    world: World,
    rollout: Rollout,
    streams: Sequence[RewardStream],
    generator: torch.Generator,
) -> Agent:
    spec = config.method_row
    if not spec.trains_policy:
        return RandomAgent(world)
    n_skills = config.reward.n_skills if spec.skill else 1
    inputs = PolicyInputs(config.channels, spec.vectors, spec.skill, n_skills, config.policy.padding)
    auxiliary = partial(spec.build_auxiliary, config.reward, world) if spec.has_auxiliary_loss else None
    kind = PPOAgent if spec.policy_learns else FrozenAgent
    return kind(world, rollout, streams, config.ppo, config.policy, inputs, generator, auxiliary)


def make_collector(
    config: TrainConfig,
    env: BatchedEnv,
    rollout: Rollout,
    observers: dict[str, Observer],
    agent: Agent,
    generator: torch.Generator,
) -> Collector:
    """The fast collector if there are CUDA graphs or groups of environments, else the plain one."""
    graphs = rollout.device.type == "cuda" and config.ppo.cuda_graphs
    watching = list(observers.values())
    if graphs or env.n_groups > 1:
        return FastCollector(env, rollout, watching, agent, generator, graphs=graphs)
    return Collector(env, rollout, watching, agent, generator)
