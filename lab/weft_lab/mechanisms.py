"""How much noise k marginals get by each way of adding up their cost: figure 2 of DPSyn, as tables and as a drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Literal

from weft.display import px, wrap_svg
from weft.marginals.records import Records
from weft.privacy.conversions import gdp_mu, zcdp_rho, zcdp_rho_closed_form
from weft_lab.charts import DASHES, PALETTE
from weft_lab.sheet import Sheet

Noise = Literal["laplace, basic", "laplace, advanced", "laplace, zCDP", "gaussian, zCDP", "gaussian, exact"]
"""A noise distribution and its composition theorem."""

ABOUT: Mapping[Noise, str] = {
    "laplace, basic": "basic composition of epsilon; weft's pure accounting, with geometric noise",
    "laplace, advanced": "the advanced composition theorem (Dwork, Rothblum and Vadhan 2010)",
    "laplace, zCDP": "Laplace noise of scale b is 1/(2 b^2)-zCDP",
    "gaussian, zCDP": "as in the paper, by its closed form",
    "gaussian, exact": "Gaussian DP in closed form; weft's default",
}

SETTINGS: Sequence[tuple[float, float]] = ((0.1, 1e-6), (0.1, 1e-11), (1.0, 1e-6), (1.0, 1e-11))
"""Budgets and deltas that are shown."""
MARGINALS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

_WIDE, _TALL, _LEFT, _GAP, _TOP = 240.0, 180.0, 48.0, 24.0, 96.0


CROSSINGS: Mapping[str, tuple[float, float]] = {
    f"epsilon {epsilon:g}, delta {delta:g}": (epsilon, delta) for epsilon in (0.1, 1.0) for delta in (1e-8, 1e-12)
}
"""Budgets of the paper's four drawings. Their deltas are not in its text: these are the round ones that fit it."""


def noise_of(marginals: int, epsilon: float, delta: float) -> dict[Noise, float]:
    """Compute the standard deviation per cell if k marginals share a budget evenly, for each kind of noise.

    >>> few, many = (noise_of(k, 1.0, 1e-6) for k in (2, 200))
    >>> min(few, key=few.get), min(many, key=many.get)
    ('laplace, basic', 'gaussian, exact')
    """
    k = marginals
    basic = math.sqrt(2) * k / epsilon
    if delta == 0:
        return {"laplace, basic": basic}
    rho = zcdp_rho(epsilon, delta)
    return {
        "laplace, basic": basic,
        "laplace, advanced": math.sqrt(2) / _solve_advanced_composition(k, epsilon, delta),
        "laplace, zCDP": math.sqrt(k / rho),
        "gaussian, zCDP": math.sqrt(k / (2 * zcdp_rho_closed_form(epsilon, delta))),
        "gaussian, exact": math.sqrt(k) / gdp_mu(epsilon, delta),
    }


def _solve_advanced_composition(k: int, epsilon: float, delta: float) -> float:
    """Return the largest e per answer such that e sqrt(2 k ln(1/delta)) + k e (exp(e) - 1) <= epsilon."""
    low, high = 0.0, epsilon
    for _ in range(200):
        middle = (low + high) / 2
        cost = middle * math.sqrt(2 * k * math.log(1 / delta)) + k * middle * math.expm1(middle)
        low, high = (middle, high) if cost <= epsilon else (low, middle)
    return max(low, 1e-300)


def find_crossover(epsilon: float, delta: float, counted: Noise = "gaussian, exact") -> int:
    """Return the minimum number of marginals at which `counted` beats Laplace noise with basic composition."""
    k = 1
    while k < 1_000_000:
        found = noise_of(k, epsilon, delta)
        if found[counted] < found["laplace, basic"]:
            return k
        k += 1
    return k


def crossings(_: Records | None, _epsilon: float, _delta: float, _seed: int) -> dict[str, dict[str, float]]:
    """Return, for each budget, the number of marginals at which Laplace noise that adds up is as large as Gaussian.

    k marginals have deviation sqrt(2) k / epsilon by Laplace noise, and sqrt(k / (2 rho)) by Gaussian noise under zCDP
    with the paper's closed form: they are equal at k = epsilon^2 / (4 rho).
    """
    return {line: {"crossing": epsilon**2 / (4 * _rho(epsilon, delta))} for line, (epsilon, delta) in CROSSINGS.items()}


def _rho(epsilon: float, delta: float) -> float:
    log = math.log(1 / delta)
    return (math.sqrt(epsilon + log) - math.sqrt(log)) ** 2


def mechanisms(
    settings: Sequence[tuple[float, float]] = SETTINGS, marginals: Sequence[int] = MARGINALS
) -> Iterator[Sheet]:
    """Yield one table for each budget: the standard deviation on a cell, by way of counting and number of marginals."""
    for epsilon, delta in settings:
        rows = []
        for k in marginals:
            found = noise_of(k, epsilon, delta)
            least = min(found, key=lambda name: found[name])
            rows.append([f"{k}", *(f"{found[name]:.4g}{' *' if name == least else ''}" for name in ABOUT)])
        paper = find_crossover(epsilon, delta, "gaussian, zCDP")
        notes = [
            f"Laplace noise that adds up is best below {find_crossover(epsilon, delta)} marginals; beside the paper's "
            f"Gaussian, below {paper}."
        ]
        yield Sheet(f"epsilon {epsilon:g}, delta {delta:g}; * least", ("marginals", *ABOUT), rows, notes)


def drawn(settings: Sequence[tuple[float, float]] = SETTINGS) -> str:
    """Draw the same, both axes by their logarithm."""
    ks = [round(10 ** (i / 8)) for i in range(22)]
    panels = []
    for i, (epsilon, delta) in enumerate(settings):
        found = [noise_of(k, epsilon, delta) for k in ks]
        body = _panel(ks, found, f"epsilon {epsilon:g}, delta {delta:g}")
        panels.append(f'<g transform="translate({px(i * (_LEFT + _WIDE + _GAP))} {px(_TOP)})">{body}</g>')
    heading = "Standard deviation on a cell of each of k marginals (DPSyn, figure 2)"
    width = len(settings) * (_LEFT + _WIDE + _GAP)
    return (
        wrap_svg(
            width,
            _TOP + _TALL + 44,
            heading,
            f'<rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="8" y="18" font-size="13" font-weight="600">{escape(heading)}</text>{_legend()}{"".join(panels)}',
            'xmlns="http://www.w3.org/2000/svg" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="11" '
            'fill="#222"',
            fixed=False,
        )
        + "\n"
    )


def _legend() -> str:
    parts = []
    for i, name in enumerate(ABOUT):
        x, y = 12 + 170 * (i % 5), 40
        line = f'<path d="M{px(x)} {y}h24" stroke="{PALETTE[i]}" stroke-width="2" stroke-dasharray="{DASHES[i]}"/>'
        parts.append(f'{line}<text x="{px(x + 30)}" y="{y + 4}">{escape(name)}</text>')
    return "".join(parts)


def _panel(ks: Sequence[int], found: Sequence[Mapping[Noise, float]], heading: str) -> str:
    values = [value for each in found for value in each.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def place(k: int, value: float) -> str:
        x = _LEFT + _WIDE * math.log(k) / math.log(ks[-1])
        return f"{px(x)} {px(_TALL * (high - math.log10(value)) / (high - low))}"

    parts = [f'<text x="{px(_LEFT)}" y="-10" font-weight="600">{escape(heading)}</text>']
    for power in range(low, high + 1):
        y = px(_TALL * (high - power) / (high - low))
        parts.append(f'<path d="M{px(_LEFT)} {y}h{px(_WIDE)}" stroke="#ddd"/>')
        parts.append(f'<text x="{px(_LEFT - 6)}" y="{y}" text-anchor="end" dy="4">{10.0**power:g}</text>')
    for k in (1, 10, 100):
        x = px(_LEFT + _WIDE * math.log(k) / math.log(ks[-1]))
        parts.append(f'<text x="{x}" y="{px(_TALL + 16)}" text-anchor="middle">{k}</text>')
    parts.append(f'<text x="{px(_LEFT + _WIDE / 2)}" y="{px(_TALL + 34)}" text-anchor="middle">marginals</text>')
    for i, name in enumerate(ABOUT):
        points = " L".join(place(k, each[name]) for k, each in zip(ks, found, strict=True))
        dash = f' stroke-dasharray="{DASHES[i]}"' if DASHES[i] else ""
        parts.append(f'<path d="M{points}" fill="none" stroke="{PALETTE[i]}" stroke-width="1.8"{dash}/>')
    return "".join(parts)
