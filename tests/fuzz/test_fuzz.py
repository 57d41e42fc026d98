"""Short forms of the harness; the long ones are slow, and can be run as commands."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from .cases import KINDS
from .kills import RACES, SCENES, kill, measure, race
from .play import play, warm_up


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


@pytest.mark.parametrize("kind", KINDS)
def test_odd_input_is_told_plainly(kind: str) -> None:
    wrong = [str(verdict) for seed in range(1, 3) if (verdict := play(kind, seed)).wrong]
    assert not wrong, "\n".join(wrong)


def test_a_kill_loses_nothing() -> None:
    rng, whole = np.random.default_rng(1), measure()
    _, wrong = kill(SCENES[0], signal.SIGKILL, rng, whole)
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_much_odd_input_is_told_plainly(kind: str) -> None:
    wrong = [str(verdict) for seed in range(1000, 1100) if (verdict := play(kind, seed)).wrong]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_kills_lose_nothing() -> None:
    rng, whole = np.random.default_rng(2), measure()
    for number in range(40):
        _, wrong = kill(SCENES[number % 4], [signal.SIGKILL, signal.SIGTERM][number % 2], rng, whole)
        assert not wrong
    for number in range(6):
        assert not race(RACES[number % len(RACES)], rng, whole)
