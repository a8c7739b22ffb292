"""Every experiment as a list of configs. Free of torch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from megareward.control import config as control_config
from megareward.control.config import ControlConfig
from megareward.envs.mini import MINI_GAMES, TUNING_GAMES
from megareward.errors import UsageError, suggestion
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset, without_fast_paths

Device = Literal["cpu", "cuda"]
Change = Callable[[TrainConfig], TrainConfig]


@dataclass(frozen=True)
class Cell:
    """One run and its place in the table."""

    row: str
    column: str
    config: TrainConfig
    before: "Cell | None" = None
    """A run that is made first, and that this one starts from."""

    def with_seed(self, seed: int) -> "Cell":
        before = self.before.with_seed(seed) if self.before else None
        start_from = before.name if before else self.config.start_from
        return replace(self, config=replace(self.config, seed=seed, start_from=start_from), before=before)

    @property
    def name(self) -> str:
        """Of its folder and of its record."""
        return f"{self.row}-on-{self.column}-s{self.config.seed}".replace(" ", "-").replace(",", "")


@dataclass(frozen=True)
class Experiment:
    """A table: what it asks, and the runs that answer."""

    name: str
    question: str
    rows: dict[str, Change]
    columns: dict[str, Change]
    frames: int
    seeds: int = 3
    seeds_of: Mapping[str, int] = field(default_factory=dict)
    """Rows that have another number of seeds."""
    frames_of: Mapping[str, int] = field(default_factory=dict)
    """Rows that have another number of frames."""
    is_audit: bool = False
    """The table shows how true the learnt control maps are (`megareward audit`), not the score."""
    tuned_on: tuple[str, ...] = ()
    """Columns on which settings were chosen. An audit that names them is tabulated game by game, the others apart."""
    is_long: bool = False
    """Its table shows only rows of which something is recorded."""
    whole_games: int = 0
    """Games that each run plays after training, with what it has learnt by then; the record holds their scores."""

    def remarks(self, scores: Mapping[tuple[str, str], list[float]]) -> list[str]:
        """Lines to add below the table, given the scores by row and column."""
        return []

    def cells(self, frames: int | None = None, seeds: int | None = None, device: Device = "cpu") -> list[Cell]:
        """All runs, seed by seed, so that a table stopped half-way is a table of fewer seeds."""
        return [
            self._cell(row, column, seed, frames, device)
            for seed in range(seeds or max(self.seeds, *self.seeds_of.values(), 1))
            for column in self.columns
            for row in self.rows
            if seeds or seed < self.seeds_of.get(row, self.seeds)
        ]

    def cells_of(self, row: str, column: str, device: Device = "cpu") -> list[Cell]:
        """The runs of one place in the table, which differ in the seed only."""
        first = self._cell(row, column, 0, device=device)
        return [first.with_seed(seed) for seed in range(self.seeds_of.get(row, self.seeds))]

    def _cell(self, row: str, column: str, seed: int, frames: int | None = None, device: Device = "cpu") -> Cell:
        config = base_config(seed, frames or self.frames_of.get(row, self.frames), device)
        return Cell(row, column, self.rows[row](self.columns[column](config)))


def base_config(seed: int, frames: int, device: Device) -> TrainConfig:
    return TrainConfig("mega", "mini-pong", frames=frames, seed=seed, device=device)


def game(name: str, **extras: Any) -> Change:
    """Play this mini game; `extras` are options of the game, such as noisy_tv."""

    def change(config: TrainConfig) -> TrainConfig:
        config = replace(config, game=name, env=None)  # type: ignore[arg-type]  # None is the game's own default
        return with_preset(replace(config, env=replace(config.env, **extras)), "mini")  # type: ignore[type-var]

    return change


def atari(name: str, presets: str = "many") -> Change:
    """Play this Atari game with many environments; few threads each, since several runs share the cores."""

    def change(config: TrainConfig) -> TrainConfig:
        config = with_preset(replace(config, game=name, env=None), presets)  # type: ignore[arg-type]  # as above
        return replace(config, env=config.env.with_threads(4))

    return change


def long_atari(name: str) -> Change:
    """Twice as many environments, minibatches as large as before, all cores: for a run that has the machine alone."""

    def change(config: TrainConfig) -> TrainConfig:
        config = atari(name)(config)
        ppo = replace(config.ppo, minibatches=16)
        return replace(config, n_envs=256, ppo=ppo, env=config.env.with_threads(0))

    return change


def method(name: str, presets: str = "auto") -> Change:
    """Train with this method, everything else as the game's preset has it, or these presets."""

    def change(config: TrainConfig) -> TrainConfig:
        return with_preset(replace(config, method=name, reward=None), presets)

    return change


RANDOM_FRAMES = 500_000


def random_play(config: TrainConfig) -> TrainConfig:
    """Random play on Atari for `RANDOM_FRAMES`, since it learns nothing: by few environments, so that each has the time
    for many games and the last 50 are not the short ones. The same run, whatever it is compared with."""
    config = method("random")(config)
    return replace(config, n_envs=8, rollout_steps=128, ppo=PPOConfig(), env=config.env.with_groups(1))


def only_watch(change_models: Change = lambda config: config) -> Change:
    """The control models learn from random play, all from the same games; the policy never learns."""

    def change(config: TrainConfig) -> TrainConfig:
        config = change_models(config)
        control = replace(config.control, background_frames=max(config.control.normalise_frames, config.frames))
        return replace(config, n_envs=64, rollout_steps=32, warmup_steps=config.frames, control=control)

    return change


def models_of(preset: str, ppo: PPOConfig, **changes: Any) -> Change:
    """The control models of a preset, but for `changes`. No policy learns here, so its PPO, its scaling of frames and
    its reward have no bearing: they stay those under which `maps` is recorded."""

    def change(config: TrainConfig) -> TrainConfig:
        config = with_preset(config, preset)
        reward = replace(config.reward, bonus="growth", normalise=True)
        policy = PolicyConfig(trunk=config.policy.trunk)
        return replace(config, ppo=ppo, policy=policy, reward=reward, control=replace(config.control, **changes))

    return change


def control(**changes: Any) -> Change:
    """Mega-reward with other settings of the control models: `rtm=dict(...)` changes fields of `control.rtm`."""

    def change(config: TrainConfig) -> TrainConfig:
        models: ControlConfig = config.control
        for part, values in changes.items():
            new = replace(getattr(models, part), **values) if isinstance(values, dict) else values
            models = replace(models, **{part: new})
        return replace(config, control=models)

    return change


def both(*changes: Change) -> Change:
    def change(config: TrainConfig) -> TrainConfig:
        for one in changes:
            config = one(config)
        return config

    return change


SOURCES_RULE = ("rnd", "curiosity", "count")
"""Methods whose sources let the return flow on beyond an end, whatever the others do."""


def charged(config: TrainConfig) -> TrainConfig:
    """Mega-reward that loses all of g when an episode ends."""
    return replace(config, reward=replace(config.reward, end_takes_all=True))


PAIRS = control(rtm={"model": "pairs"})
ADDED_UP = {"combine": "sum", "clip": True, "above_chance": True}
EARLIER_MODELS = both(PAIRS, control(latent={**ADDED_UP, "hold": True, "background": 0.5, "reward": "record"}))
EARLIER = both(EARLIER_MODELS, charged)
"""Mega-reward as it was by default when the first tables were made."""


def as_in_its_source(name: str) -> Change:
    """Each method under the rule for death of its own source. Tables made so compare rules as well as rewards; `death`
    compares rewards."""

    def change(config: TrainConfig) -> TrainConfig:
        config = EARLIER_MODELS(method(name)(config))
        if name in SOURCES_RULE:
            return replace(config, reward=replace(config.reward, episodic="no"))
        return charged(config) if name == "mega" else config

    return change


FIRST_SEVEN = ("random", "mega", "dir", *SOURCES_RULE, "extrinsic")
EQUATION_10 = {"combine": "sum", "hold": False, "clip": False, "above_chance": False}
LITERAL = control(latent={**EQUATION_10, "reward": "difference"})
POSITIVE = control(latent={**EQUATION_10, "reward": "positive"})
UNHELD = control(latent={"hold": False, "clip": False})
"""Eq. 10 itself, but for what exceeds chance."""
FORGETS = control(latent={"background": 0.5})
FLASH_PAYS = control(latent={"flash": 1.0})
"""A step that changes most of the screen counts like any other."""


def no_g(config: TrainConfig) -> TrainConfig:
    return replace(config, g_channel="no")


def with_g(config: TrainConfig) -> TrainConfig:
    return replace(config, g_channel="auto")


def compared(*changes: Change) -> Change:
    """Every row of `forms` is this base and one change or two, whatever the defaults are by now."""
    base = {**ADDED_UP, "hold": True, "background": 1.0, "reward": "spread"}
    return both(EARLIER, control(latent=base), with_g, *changes)


def no_charge(config: TrainConfig) -> TrainConfig:
    """Mega-reward that loses nothing when an episode ends."""
    return replace(config, reward=replace(config.reward, end_takes_all=False))


MINI = Experiment(
    name="mini-games",
    question="Which reward leads to play on the mini games, and which is fooled by a noisy TV?",
    rows={name: as_in_its_source(name) for name in FIRST_SEVEN},
    columns={name: game(name) for name in TUNING_GAMES}
    | {f"{name} tv": game(name, noisy_tv=True) for name in TUNING_GAMES},
    frames=150_000,
)

FORMS = Experiment(
    name="forms",
    question="Which form of Eq. 10-11, of the attention and of RTM's loss leads to play?",
    rows={
        "base": compared(),
        "literal Eq. 10-11": compared(LITERAL),
        "positive part": compared(POSITIVE),
        "positive part, hold and clip": compared(control(latent={"reward": "positive"})),
        "nothing lost at the end": compared(no_charge),
        "no g channel": compared(no_g),
        "background forgets": compared(FORGETS),
        "background forgets, no g channel": compared(FORGETS, no_g),
        "literal, no g channel": compared(LITERAL, no_g),
        "positive part, no g channel": compared(POSITIVE, no_g),
        "positive part above chance, no g channel": compared(UNHELD, control(latent={"reward": "positive"}), no_g),
        "record, background forgets, no g channel": compared(
            UNHELD, control(latent={"reward": "record"}), FORGETS, no_g
        ),
        "record, background forgets": compared(UNHELD, control(latent={"reward": "record"}), FORGETS),
        "record, hold and clip, background forgets, no g channel": compared(
            control(latent={"reward": "record"}), FORGETS, no_g
        ),
        "difference, background forgets, no g channel": compared(
            UNHELD, control(latent={"reward": "difference"}), FORGETS, no_g
        ),
        "difference, hold and clip, background forgets, no g channel": compared(
            control(latent={"reward": "difference"}), FORGETS, no_g
        ),
        "spread, no hold, no clip, background forgets, no g channel": compared(UNHELD, FORGETS, no_g),
        "sparsemax relation": compared(control(rtm={"attention": "sparsemax"})),
        "no anchor": compared(control(rtm={"anchor": 0.0})),
        "gauss anchor": compared(control(rtm={"anchor_kind": "gauss"})),
        "still cells as learnt": compared(control(rtm={"still_on_itself": False})),
        "direct control below chance too": compared(control(latent={"above_chance": False})),
        "no policy prior": compared(control(adm={"policy_prior": False})),
        "blend loss": compared(control(rtm={"loss": "blend", "source_loss": 0.0, "targets": 1.0})),
        "oracle": compared(control(oracle={"lags": 32})),
        "oracle, literal": compared(control(oracle={"lags": 32}), LITERAL),
    },
    columns={name: game(name) for name in TUNING_GAMES},
    frames=150_000,
)

FLASH = Experiment(
    name="flash",
    question="Does a screen that flashes at every death teach to die?",
    rows={"random": method("random"), "mega, a flash pays": both(EARLIER, FLASH_PAYS), "mega": EARLIER},
    columns={"mini-demon flash": game("mini-demon", death_flash=True)},
    frames=150_000,
)


def nothing_ends(config: TrainConfig) -> TrainConfig:
    return replace(config, episodic=False)


def under_both_rules(names: tuple[str, ...], not_episodic: tuple[str, ...]) -> dict[str, Change]:
    """Rows of methods where ends of the game end the return, then where nothing does."""
    rows = {name: method(name) for name in names}
    return rows | {f"{name}, nothing ends": both(method(name), nothing_ends) for name in not_episodic}


WHOSE_MAPS = {
    "true maps": control(oracle={"lags": 32}),
    "local maps": control(rtm={"model": "local"}),
    "pair maps": control(rtm={"model": "pairs"}),
    "untrained maps": control(rtm={"model": "local"}, passes=0),
}
"""Who says what is controlled: branches of the game, the two kinds of RTM, or models that have learnt nothing."""


ALL_ALIKE = control(rtm={"local_credit": "even"}, latent={"background": 0.5})
"""Relations by sight as they were first: every changed pixel says as much as any other, and a cell that shows nothing
but background forgets half of its control in each step."""
BY_SIGHT = both(control(rtm={"model": "local"}, latent=ADDED_UP), ALL_ALIKE)
UNHELD_BY_SIGHT = both(BY_SIGHT, control(latent={"hold": False}))


def form(reward: str) -> Change:
    """Mega-reward in this form of Eq. 11. Those that pay for the growth of control lose all of it at an end; those that
    pay for its level have nothing to give back."""
    change = both(method("mega"), UNHELD_BY_SIGHT, control(latent={"reward": reward}))
    return change if reward in ("difference", "positive", "record", "spread") else both(change, no_charge)


AS_PRINTED = both(method("mega"), LITERAL, control(latent={"background": 1.0, "flash": 1.0}))
ALL_FORMS = {"as printed": AS_PRINTED} | {name: form(name) for name in control_config.FORMS}
ALL_FORMS |= {
    "count bonus on g": both(method("mega-count"), UNHELD_BY_SIGHT),
    "novelty where g is": both(method("g-rnd"), UNHELD_BY_SIGHT),
}

CAUSES = Experiment(
    name="causes",
    question="Is it the form of the reward or the maps that keep control from paying?",
    rows={
        f"{name}, {maps}{rule}": both(change, whose, *ends)
        for rule, ends in {"": (), ", nothing ends": (nothing_ends,)}.items()
        for name, change in ALL_FORMS.items()
        for maps, whose in WHOSE_MAPS.items()
    },
    columns={name: game(name) for name in MINI_GAMES},
    frames=150_000,
    seeds=5,
    is_long=True,
)

NOT_RANDOM = ("alive", "mega", "mega-direct", "rnd", "curiosity", "count")
GROWTH = {
    "mega without the charge": both(method("mega"), no_charge),
    "growth": both(method("mega"), EARLIER_MODELS, no_charge),
    "growth, charged": both(method("mega"), EARLIER),
    "growth, charged, direct": both(method("mega-direct"), EARLIER),
    "Eq. 11 added up": form("difference"),
    "Eq. 11, all pixels alike": both(method("mega"), ALL_ALIKE),
}
"""Other rewards for the growth of control: in the form `record` of relations by pairs, with and without the loss of all
of it at an end; of the sum of direct and latent control in place of the larger of the two; and of relations to which
every changed pixel adds alike."""

DEATH = Experiment(
    name="death",
    question="What is control worth, under one rule for death?",
    rows=under_both_rules(("random", *NOT_RANDOM, "mega-count", "dir", "emp", "sto", "div", "extrinsic"), NOT_RANDOM)
    | GROWTH
    | {"growth, nothing ends": both(GROWTH["growth, charged"], nothing_ends)}
    | {"growth, direct, nothing ends": both(GROWTH["growth, charged, direct"], nothing_ends)},
    columns={name: game(name) for name in MINI_GAMES},
    frames=150_000,
    seeds=5,
    is_long=True,
)


def printed_models(config: TrainConfig) -> TrainConfig:
    """Eq. 1-11 as printed, trained as the others are."""
    models, printed = config.control, control_config.paper(config.control)
    training = {name: getattr(models, name) for name in (*control_config.RELEASED_TRAINING, "overlap")}
    printed = replace(printed, **training, background_frames=models.background_frames)
    return replace(config, control=printed, g_channel="auto")


MOVED = control(latent={"reward": "moved"})
RUNGS = {
    "relations by sight": control(rtm={"model": "local", "stack": 4, "local_credit": "even"}),
    "what moves is paid": both(MOVED, no_charge),
    "softmax and place": control(adm={"attention": "softmax", "place": True}),
    "frames scaled": control(normalise="pixel"),
    "hold, clip, above chance": control(latent={"hold": True, "clip": True, "above_chance": True}),
    "background and flash": control(latent={"background": 0.5, "flash": 0.5}),
    "policy prior": control(adm={"policy_prior": True}),
    "no g channel": no_g,
}
"""From the method as printed upwards, each on top of those before."""
TOP = both(method("mega"), BY_SIGHT, control(latent={"hold": True}), MOVED, no_charge)
WITHOUT = {
    "pairs": PAIRS,
    "Eq. 11": both(control(latent={"reward": "difference"}), charged),
    "sparsemax": control(adm={"attention": "sparsemax"}),
    "no place": control(adm={"place": False}),
    "frames unscaled": control(normalise="fixed"),
    "no hold": control(latent={"hold": False}),
    "no clip": control(latent={"clip": False}),
    "neither hold nor clip": control(latent={"hold": False, "clip": False}),
    "direct control below chance": control(latent={"above_chance": False}),
    "nothing forgets": control(latent={"background": 1.0}),
    "no policy prior": control(adm={"policy_prior": False}),
    "g channel": with_g,
}
"""The top of the ladder with one thing as it is in the paper."""

LADDER = Experiment(
    name="ladder",
    question="Which deviations from the paper pay for themselves?",
    rows={"0 as printed": both(method("mega"), printed_models, no_charge)}
    | {
        f"{n} {name}": both(method("mega"), printed_models, no_charge, *list(RUNGS.values())[:n])
        for n, name in enumerate(RUNGS, 1)
    }
    | {f"top but {name}": both(TOP, change) for name, change in WITHOUT.items()},
    columns={name: game(name) for name in TUNING_GAMES},
    frames=150_000,
    seeds=3,
)

PLAIN_SUM = control(latent={"clip": False, "above_chance": False})
PLAIN_ADM = control(adm={"place": False, "policy_prior": False})
UNTRAINED = control(passes=0)
EQ_11 = form("difference")
SIGHT = Experiment(
    name="sight",
    question="Given relations by sight and nothing held, which form of Eq. 10-11 leads to play?",
    rows={
        "Eq. 11": EQ_11,
        "Eq. 11, untrained": both(EQ_11, UNTRAINED),
        "Eq. 11 of the larger": both(method("mega"), ALL_ALIKE),
        "Eq. 11 of the larger, untrained": both(method("mega"), ALL_ALIKE, UNTRAINED),
        "Eq. 11 of the larger, by what is explained": method("mega"),
        "Eq. 11 of the larger, by what is explained, untrained": both(method("mega"), UNTRAINED),
        "Eq. 11, neither place nor prior": both(EQ_11, PLAIN_ADM),
        "Eq. 11, no clip": both(EQ_11, control(latent={"clip": False})),
        "Eq. 10 and 11": both(EQ_11, PLAIN_SUM),
        "Eq. 10 and 11, neither place nor prior": both(EQ_11, PLAIN_SUM, PLAIN_ADM),
        "Eq. 10 and 11, neither, sparsemax": both(EQ_11, PLAIN_SUM, PLAIN_ADM, control(adm={"attention": "sparsemax"})),
        "level": form("level"),
        "level of Eq. 10": both(form("level"), PLAIN_SUM),
        "moved": form("moved"),
        "moved, untrained": both(form("moved"), UNTRAINED),
        "moved, no place": both(form("moved"), control(adm={"place": False})),
        "moved, neither place nor prior": both(form("moved"), PLAIN_ADM),
        "moved, Eq. 10, neither place nor prior": both(form("moved"), PLAIN_SUM, PLAIN_ADM),
        "moved, no clip": both(form("moved"), control(latent={"clip": False})),
    },
    columns={name: game(name) for name in TUNING_GAMES},
    frames=150_000,
    seeds=3,
)

DEATH_ATARI = Experiment(
    name="death-atari",
    question="What is control worth on Atari, under one rule for death?",
    rows=under_both_rules(("alive", "mega", "rnd"), ("mega", "rnd"))
    | {name: GROWTH[name] for name in ("growth, charged", "Eq. 11 added up", "Eq. 11, all pixels alike")},
    columns={name: atari(name) for name in ("breakout", "kung_fu_master", "up_n_down", "seaquest", "pong")},
    frames=10_000_000,
    seeds=1,
    seeds_of={"alive": 2, "mega": 2},
    is_long=True,
    whole_games=30,
)

ATARI = Experiment(
    name="atari",
    question="Which reward leads to play on Atari, with the score hidden from all but `extrinsic`?",
    rows={name: as_in_its_source(name) for name in FIRST_SEVEN if name != "count"},
    columns={name: atari(name) for name in ("pong", "breakout", "demon_attack", "seaquest")},
    frames=10_000_000,
    seeds=1,
)

PAPER_GAMES = (
    *("seaquest", "bowling", "venture", "wizard_of_wor", "asterix", "robotank", "beam_rider", "battle_zone"),
    *("kung_fu_master", "centipede", "pong", "air_raid", "double_dunk", "demon_attack", "berzerk", "breakout"),
    *("jamesbond", "up_n_down"),
)
"""In the order of the paper's table."""

PLAY = Experiment(
    name="play",
    question="How well does each reward play the paper's 18 games after an eighth of its frames?",
    rows={"random": random_play} | {name: method(name) for name in ("alive", "mega", "rnd", "extrinsic")},
    columns={name: atari(name) for name in PAPER_GAMES},
    frames=10_000_000,
    frames_of={"random": RANDOM_FRAMES},
    seeds=1,
    whole_games=30,
)

LITERAL_AND_DEFAULT = Experiment(
    name="presets",
    question="How do the paper's text and the authors' code play, beside the default and beside survival alone?",
    rows={
        "paper": method("mega", "paper,many"),
        "released": method("mega", "released,many"),
        "default": method("mega", "many"),
        "alive": method("alive", "many"),
    },
    columns={name: atari(name, "default") for name in ("breakout", "pong", "up_n_down")},
    frames=10_000_000,
    seeds=1,
    whole_games=30,
)

ATARI_LONG = Experiment(
    name="atari-long",
    question="What does each reward lead to in the paper's 80M frames?",
    rows={name: as_in_its_source(name) for name in FIRST_SEVEN if name not in ("random", "count")},
    columns={name: long_atari(name) for name in ("pong", "breakout", "demon_attack", "seaquest")},
    frames=80_000_000,
    seeds=1,
)

ATARI_FORMS = Experiment(
    name="atari-forms",
    question="Does the form of Eq. 10-11 that is best on mini games lead to play on Atari?",
    rows={
        "record, hold and clip, background forgets": compared(control(latent={"reward": "record"}), FORGETS, no_g),
        "positive part above chance": compared(UNHELD, control(latent={"reward": "positive"}), no_g),
        "literal": compared(LITERAL, no_g),
        "base": compared(),
    },
    columns={name: atari(name) for name in ("breakout", "pong")},
    frames=10_000_000,
    seeds=1,
)

ATARI_FLASH = Experiment(
    name="atari-flash",
    question="Does DemonAttack, whose screen flashes when the ship is hit, teach to be hit?",
    rows={"mega, a flash pays": both(EARLIER, FLASH_PAYS), "mega": EARLIER},
    columns={"demon_attack": atari("demon_attack")},
    frames=10_000_000,
    seeds=1,
)

PARITY = Experiment(
    name="parity",
    question="Does Ex-PPO learn as well per frame with all fast paths as with none?",
    rows={"fast": method("extrinsic"), "plain": both(method("extrinsic"), without_fast_paths)},
    columns={"breakout": atari("breakout")},
    frames=3_000_000,
    seeds=4,
)

MAPS = Experiment(
    name="maps",
    question="Whose control maps are true?",
    rows={
        "default": both(EARLIER, only_watch()),
        "nothing forgets": both(EARLIER, only_watch(), control(latent={"background": 1.0, "reward": "spread"}), with_g),
        "released": only_watch(models_of("released", PPOConfig(clip_decays=True, normalise_advantages="rollout"))),
        "paper": only_watch(models_of("paper", PPOConfig(clip_decays=True), batch=256)),  # the preset now has 8
    },
    columns={name: atari(name) for name in ("pong", "breakout", "demon_attack", "freeway", "seaquest")},
    frames=1_500_000,
    seeds=1,
    is_audit=True,
)

TUNED_ON = ("pong", "breakout", "demon_attack", "freeway", "seaquest")
"""Games on which settings of the control models were chosen."""
HARD_GAMES = ("montezuma_revenge", "gravitar", "pitfall", "private_eye", "solaris", "venture")
"""The paper's games of hard exploration."""
NOT_TUNED_ON = tuple(
    name
    for name in dict.fromkeys((*PAPER_GAMES, *HARD_GAMES, "space_invaders", "assault", "boxing"))
    if name not in TUNED_ON
)
BENCHMARK_GAMES = (*MINI_GAMES, *TUNED_ON, *NOT_TUNED_ON)
"""Those of which `megareward truth all` makes the truth."""

ALL_MAPS = Experiment(
    name="all-maps",
    question="Whose control maps are true on games that nobody tuned on?",
    rows={
        "default": only_watch(),
        "released": MAPS.rows["released"],
        "paper": MAPS.rows["paper"],
        "untrained": only_watch(control(passes=0)),
    },
    columns={name: atari(name) for name in (*TUNED_ON, *NOT_TUNED_ON)},
    frames=500_000,
    frames_of={"untrained": 100_000},
    seeds=1,
    is_audit=True,
    tuned_on=TUNED_ON,
)

ALL = (
    MINI,
    FORMS,
    FLASH,
    CAUSES,
    DEATH,
    LADDER,
    SIGHT,
    DEATH_ATARI,
    ATARI,
    PLAY,
    LITERAL_AND_DEFAULT,
    ATARI_LONG,
    ATARI_FORMS,
    ATARI_FLASH,
    PARITY,
    MAPS,
    ALL_MAPS,
)
EXPERIMENTS = {experiment.name: experiment for experiment in ALL}


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise UsageError(f"There is no experiment '{name}'.{suggestion(name, EXPERIMENTS)} Experiments: {known}.")
    return EXPERIMENTS[name]


def matching(cells: list[Cell], words: str) -> Iterator[Cell]:
    """The cells whose names contain every one of the comma-separated words."""
    wanted = [word for word in words.split(",") if word]
    return (cell for cell in cells if all(word in cell.name for word in wanted))
