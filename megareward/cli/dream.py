"""`megareward dream RUN`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from megareward.cli.parsing import Device, parse
from megareward.errors import UsageError, warn


@dataclass(frozen=True)
class DreamArgs:
    """Draw what the World Model of a run sees and dreams; with --controller, also train its controller by CMA-ES."""

    run: tyro.conf.Positional[Path]
    """Folder of a run of `world` or `world-model`."""
    out: Path | None = None
    """The picture. [default: dream.png in the run's folder]"""
    steps: int = 24
    """Length of the dreams in decisions."""
    temperature: float = 1.0
    """Sampling temperature of the last row; above 1, dreams are more random than the model M predicts."""
    controller: bool = False
    """Also train the original controller C, a linear layer, by CMA-ES (needs the extra `cma`)."""
    generations: int = 15
    population: int = 32
    """Candidates per generation."""
    games: int = 4
    """Environments that each candidate plays."""
    play_steps: int = 300
    """Decisions in each environment."""
    sigma: float = 0.3
    """Initial standard deviation of the candidates' weights."""
    seed: int = 0
    device: Device = "auto"


def command(words: list[str]) -> int:
    args: DreamArgs = parse(DreamArgs, words, "dream")
    if args.steps < 8:
        raise UsageError(f"--steps is {args.steps}; nine moments are drawn, so use at least 8.")
    if not args.temperature > 0:
        raise UsageError(f"--temperature is {args.temperature}; it must be above 0.")
    from megareward.training.run import pick_device
    from megareward.viewer.dreams import draw, dream_pictures, find_controller, load_world
    from megareward.world_model.controller import EvolutionConfig

    evolution = EvolutionConfig(args.generations, args.population, args.games, args.play_steps, args.sigma, args.seed)
    config, model, frames = load_world(args.run, pick_device(args.device), warn)
    pictures = dream_pictures(config, model, steps=args.steps, temperature=args.temperature)
    out = args.out or args.run / "dream.png"
    draw(pictures, args.steps, f"{config.game}, V and M after {frames:,} frames; decisions since M saw the game", out)
    print(f"Wrote {out}.")
    if args.controller:
        found = find_controller(
            config,
            model,
            evolution,
            lambda generation, mean, best: print(
                f"generation {generation}: mean {mean:.2f}, best {best:.2f}", flush=True
            ),
        )
        print(
            f"C scores {found['score']:.2f} +- {found['score_error']:.2f} in {args.play_steps} decisions of a game; "
            f"random play {found['random']:.2f} +- {found['random_error']:.2f}."
        )
    return 0
