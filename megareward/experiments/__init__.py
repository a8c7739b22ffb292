"""Tables as lists of runs: each experiment names its runs, one command makes them all and tabulates them."""
