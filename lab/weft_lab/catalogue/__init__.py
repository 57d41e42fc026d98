"""The published experiments that `weft bench` knows: a file for each paper."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from weft.errors import MethodError
from weft_lab.catalogue import bsg, dpsyn, privmrf, privsyn, weave
from weft_lab.experiment import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    made.name: made
    for paper in (privsyn.EXPERIMENTS, privmrf.EXPERIMENTS, bsg.EXPERIMENTS, dpsyn.EXPERIMENTS, weave.EXPERIMENTS)
    for made in paper
}
"""Every experiment by name."""


def experiment(name: str) -> Experiment:
    """Return an experiment by name."""
    if name not in EXPERIMENTS:
        close = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "`weft bench --list` shows them all."
        raise MethodError(f"there is no experiment {name!r}. {hint}")
    return EXPERIMENTS[name]
