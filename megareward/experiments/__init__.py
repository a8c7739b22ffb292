"""Tables as lists of runs: each experiment names its runs, one command makes them all and tabulates them."""

from megareward.experiments import paper_plans as paper_plans  # adds its rows to `plans.EXPERIMENTS`
from megareward.experiments import plans, with_score

plans.EXPERIMENTS |= {experiment.name: experiment for experiment in with_score.ALL}
