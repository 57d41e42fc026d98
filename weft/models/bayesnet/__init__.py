"""Bayesian networks: each attribute drawn given its parents."""
