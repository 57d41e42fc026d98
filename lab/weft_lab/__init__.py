"""The papers' experiments, run again: each is data, one runner executes it on any coded table.

What they measure is computed from the real rows, with noise that a seed can repeat: results are PRIVATE unless the
table is public.
"""
