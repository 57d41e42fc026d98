"""BSG, plausible deniability (PVLDB 2017): the method, its Bayesian network, and records completed from seeds."""
