"""Tables as lists of runs: each experiment names its runs, one command makes them all and tabulates them."""

from megareward.experiments import plans, with_score

plans.EXPERIMENTS |= {experiment.name: experiment for experiment in with_score.ALL}
