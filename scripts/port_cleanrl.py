"""CleanRL's ppo_atari.py with Gymnasium 1 and a reward of ours: port a copy of it, run it and check its advantages.

    python scripts/port_cleanrl.py PATH/TO/cleanrl/ppo_atari.py --method count

The edits are those of docs/own-code.md. The ported script runs for two short rollouts on the CPU. Then rewards and
advantages of the last one are computed once more by hand, from the steps that were watched, and compared.
"""

import argparse
import json
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import megareward
from megareward.integration.reward import IntrinsicReward

EDITS = [
    (
        "the wrappers and make_env go: ale-py's vector environment shrinks, stacks and skips by itself",
        r"from \S*atari_wrappers import \(.*?\)\n(.*?)def make_env\(.*?return thunk\n",
        """import megareward
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from megareward.envs import score_masks
\\1
def hidden(frames, game):
    frames = np.array(frames)
    score_masks.paint(frames, score_masks.frame_boxes(game))
    return frames
""",
    ),
    (
        "the environments, and the reward beside them",
        r"    envs = gym\.vector\.SyncVectorEnv\(.*?\n    \)\n",
        """    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP, "reward_clipping": False}
    envs = AtariVectorEnv(args.env_id, args.num_envs, episodic_life=True, **same_step)
    irs = megareward.make("METHOD", envs, device=device, seed=args.seed)
""",
    ),
    (
        "the score is painted out of the first frames",
        r"(    next_obs, _ = envs\.reset\(.*?\)\n)",
        "\\1    next_obs = hidden(next_obs, args.env_id)\n",
    ),
    (
        "every step is watched, with the true last frame of an episode",
        r"(            next_obs, reward, terminations, truncations, infos = envs\.step\(.*?\)\n)",
        """\\1            next_obs = hidden(next_obs, args.env_id)
            true_next_obs = next_obs.copy()
            for n in np.flatnonzero(terminations | truncations):
                true_next_obs[n] = hidden(infos["final_obs"][n], args.env_id)
            irs.watch(obs[step], action, reward, terminations, truncations, true_next_obs)
""",
    ),
    (
        "before the advantages: the reward takes the place of the score, and learns",
        r"(        # bootstrap value if not done\n)",
        """        rewards = irs.compute()
        irs.update()

\\1""",
    ),
]
"""What is done, where, and what comes there."""


def ported(source: str, method: str) -> str:
    for what, where, new in EDITS:
        source, n = re.subn(where, new.replace("METHOD", method), source, flags=re.DOTALL)
        if n != 1:
            raise SystemExit(f"Found {n} places instead of one: {what}. Is this CleanRL's ppo_atari.py?")
    return source


def by_hand(rewards, values, over, next_values, gamma: float, gae_lambda: float) -> np.ndarray:
    """Advantages by their definition: discounted errors, added up to the end of the episode or of the rollout."""
    T, N = rewards.shape
    values = np.concatenate([values, next_values[None]])
    advantages = np.zeros((T, N))
    for t in range(T):
        for n in range(N):
            for k in range(t, T):
                error = rewards[k, n] + (0 if over[k, n] else gamma * values[k + 1, n]) - values[k, n]
                advantages[t, n] += (gamma * gae_lambda) ** (k - t) * error
                if over[k, n]:
                    break
    return advantages


def run(path: Path, method: str, game: str, n_envs: int, n_steps: int) -> dict[str, Any]:
    watched: list[tuple[Any, ...]] = []
    watch = IntrinsicReward.watch

    def noted(self: IntrinsicReward, *step: Any) -> None:
        watched.append(tuple(x.clone() if isinstance(x, torch.Tensor) else np.array(x) for x in step))
        watch(self, *step)

    options = {"env-id": game, "num-envs": n_envs, "num-steps": n_steps, "total-timesteps": 2 * n_envs * n_steps}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "ppo_atari_ported.py"
        script.write_text(ported(path.read_text(), method))
        arguments = [str(x) for name, value in options.items() for x in (f"--{name}", value)]
        sys.argv = [str(script), *arguments, "--no-cuda"]
        IntrinsicReward.watch = noted  # type: ignore[method-assign]
        try:
            end = runpy.run_path(str(script), run_name="__main__")
        finally:
            IntrinsicReward.watch = watch  # type: ignore[method-assign]
    again = megareward.make(method, end["envs"], seed=end["args"].seed)
    for t, step in enumerate(watched):
        again.watch(*step)
        if t == n_steps - 1:
            again.update()
    rewards = again.compute().numpy()
    over = np.stack([step[3] | step[4] for step in watched[n_steps:]])
    numbers = {name: end[name].numpy().astype(np.float64) for name in ("rewards", "values", "advantages", "next_value")}
    args = end["args"]
    hand = by_hand(rewards, numbers["values"], over, numbers["next_value"][0], args.gamma, args.gae_lambda)
    return {
        "method": method,
        "game": game,
        "environments": n_envs,
        "steps": n_steps,
        "episodes ended": int(over.sum()),
        "rewards differ by at most": float(np.abs(rewards - numbers["rewards"]).max()),
        "advantages differ by at most": float(np.abs(hand - numbers["advantages"]).max()),
        "largest advantage": float(np.abs(hand).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--method", default="mega")
    parser.add_argument("--game", default="breakout")
    parser.add_argument("--n-envs", type=int, default=4)
    parser.add_argument("--n-steps", type=int, default=128)
    parser.add_argument("--write", type=Path, help="write the ported script there instead of running it")
    options = parser.parse_args()
    if options.write:
        options.write.write_text(ported(options.path.read_text(), options.method))
        return
    print(json.dumps(run(options.path, options.method, options.game, options.n_envs, options.n_steps), indent=2))


if __name__ == "__main__":
    main()
