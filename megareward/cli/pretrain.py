"""`megareward pretrain METHOD`: the first half of the paper's "Pretraining with Mega-Reward"."""

from megareward.cli.train import make_run, parse_args, settled
from megareward.errors import UsageError
from megareward.rewards import METHODS


def command(words: list[str]) -> int:
    """Like `train METHOD`, but methods that see the score are refused; then prints how to continue on the score."""
    hidden = ", ".join(method.name for method in METHODS.values() if not method.uses_score)
    if not words or (words[0].startswith("-") and not {"-h", "--help"} & set(words)):
        raise UsageError(f"Which method? `megareward pretrain METHOD ...`; methods that need no score: {hidden}.")
    args = parse_args(["mega", *words] if words[0].startswith("-") else words, "pretrain")
    config = settled(args, words)
    if config.uses_score or not config.hides_score:
        option = "--with-score" if config.with_score else "--show-score yes" if config.show_score == "yes" else ""
        remedy = f"leave {option} out" if option else f"choose one of {hidden}, or `megareward train {config.method}`"
        raise UsageError(f"Pretraining hides the score, but '{config.method}' would see it; {remedy}.")
    folder = make_run(args, config, "-pretrained")
    if not args.quiet:
        follower = config.method_row.pretrains
        print(f"On the score from here: megareward train {follower} --game {config.game} --from {folder.path}")
    return 0
