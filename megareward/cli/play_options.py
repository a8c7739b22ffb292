"""What `watch` and `figure case-study` share: how a game is played and recorded before it is shown."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from megareward.cli.parsing import Device
from megareward.errors import warn
from megareward.progress import Bar


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    steps: int = 1000
    """Decisions to record; when a game ends, the next one begins."""
    policy: Literal["trained", "random"] | None = None
    """Policy that plays; the control models are the run's own in both cases. [default: trained; with --audited, the
    policy of the newest audit]"""
    audited: bool = False
    """Show the episodes of `megareward audit RUN` and their truth instead of playing new ones."""
    greedy: bool = False
    """Take the likeliest action instead of sampling one."""
    seed: int = 1
    """Seed of the game and of the policy's rng."""
    device: Device = "auto"

    def player(self, run: Path) -> str:
        """The policy that plays: "trained" or "random"."""
        if self.policy is not None or not self.audited:
            return self.policy or "trained"
        audits = sorted(run.glob("audit-*.json"), key=lambda audit: audit.stat().st_mtime)
        return audits[-1].stem.removeprefix("audit-") if audits else "random"

    def recording(self, run: Path) -> Any:
        """A recording of the newest checkpoint of a run at play."""
        from megareward.training.run import pick_device
        from megareward.viewer.watch import record

        return record(
            run,
            steps=self.steps,
            policy=self.player(run),
            audited=self.audited,
            greedy=self.greedy,
            seed=self.seed,
            device=pick_device(self.device),
            warn=warn,
            progress=Bar("steps played"),
        )
