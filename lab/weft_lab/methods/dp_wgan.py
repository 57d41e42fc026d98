"""DP-WGAN (Xie, Lin, Wang, Wang, Zhou 2018; NESL's entry to NIST's challenge): a generative adversarial baseline.

A critic learns to score real rows above synthetic ones, a generator to produce rows with high scores. Privacy: only the
critic uses real rows, through the sum of their gradients, each normalised to length 1, with Gaussian noise
(`GradientQueries.critic_gradient`); the generator is post-processing. In PrivMRF's experiments it is the least accurate
method: do not use it for releases.

Where the defaults differ from the paper (`preset="paper"`):
- `share_columns` 0.3, published 0.01: by default, the generator starts from noisy one-way marginals; in the paper, it
  starts at random and the number of rows is public; with the preset, that number is measured and charged.
- `rare` 3.0, published 0.0: no value is merged.
- `weight_limit` 0.1, published 0.01.
- `steps` 20, published 2000: the papers leave open how long training lasts. After 20 steps the generator still draws
  nearly uniform rows at every epsilon; 2,000 steps are the fewest of those tried at which it learns NLTCS (3-way error
  .058 at epsilon 3.2, .26 at 0.2; uniform rows .436).

With the preset as well:
- Added query, number of rows: the paper takes it as known.
- Every step uses all rows, with Gaussian noise that composes exactly. The paper samples batches and relies on privacy
  amplification; its code takes the rows in order, for which amplification does not hold.
- Networks are small (one hidden layer each), and the critic's weights are integers, so that the contribution of a row
  does not depend on the other rows. Floating-point sums do not guarantee that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from weft.bounds import Bounds, Deviations, Factor, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.pooling import common_total
from weft.marginals.records import Records
from weft.marginals.simplex import project_to_simplex
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, get_published_settings, option
from weft.models import Model
from weft.models import stored_arrays as stored
from weft.privacy import AccountingName, find_accounting
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.network_gradients import MAX_GRADIENT_COLUMNS, STEPS, Critic
from weft_lab.queries.gradient_queries import GradientQueries

COUNTED = 1 << 15
"""Sampled records on which marginals are counted."""

MAX_UNITS = 1 << 12
"""Maximum units of a layer in a model file."""

_ROWS = 1 << 12
"""Records sampled at a time."""


@dataclass(frozen=True)
class GeneratorModel:
    """A generator: normal inputs, one hidden layer of tanh units, and a softmax for each attribute."""

    kind: ClassVar[str] = "generator"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    into: Array
    """Weights from normal inputs to hidden units."""
    out: Array
    """Weights from hidden units, and a last row of biases, to the concatenated codes of all attributes."""

    @cached_property
    def ends(self) -> Array:
        """End position of the codes of each attribute."""
        return np.cumsum(self.domain.shape)

    def hidden(self, normal: Array) -> Array:
        """Return the hidden units and a constant 1."""
        return np.column_stack([np.tanh(normal @ self.into), np.ones(len(normal))])

    def chances(self, hidden: Array) -> list[Array]:
        """Return the distribution of each attribute."""
        made = []
        for logits in np.split(hidden @ self.out, self.ends[:-1], axis=1):
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            made.append(weights / weights.sum(axis=1, keepdims=True))
        return made

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Return the codes of n records, one per row."""
        pieces = [np.zeros((0, len(self.domain)), np.int64)]
        for start in range(0, n, _ROWS):
            rows = min(_ROWS, n - start)
            chances = self.chances(self.hidden(rng.standard_normal((rows, len(self.into)))))
            at = [(rng.random((rows, 1)) > np.cumsum(c, axis=1)).sum(axis=1) for c in chances]
            pieces.append(np.minimum(np.column_stack(at), np.array(self.domain.shape) - 1))
        return np.concatenate(pieces)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records."""
        return Records.of(self.domain, list(self.draw(n, rng).T))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Estimate expected counts on a fixed sample of records."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the estimated marginal and the number of records it was counted on."""
        return count_marginals(self._records, [make_clique(columns)])[0] * (self.total / COUNTED), COUNTED

    @cached_property
    def _records(self) -> Records:
        return self.sample(COUNTED, np.random.default_rng(0))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the contents of a model file."""
        return {"total": self.total, "normal": len(self.into), "hidden": len(self.out) - 1}, {
            "into": self.into,
            "out": self.out,
        }

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        normal, hidden = (stored.read_whole_number(meta, name, 1, MAX_UNITS) for name in ("normal", "hidden"))
        into = stored.read_array(arrays, "into", (normal, hidden), -stored.STEEPEST, stored.STEEPEST)
        out = stored.read_array(arrays, "out", (hidden + 1, sum(domain.shape)), -stored.STEEPEST, stored.STEEPEST)
        return cls(domain, stored.read_total(meta), into, out)


MADE = 256
"""Synthetic rows per step."""

PACE = 50.0
"""Step size of the critic, as a multiple of its weight limit: gradients are far shorter than their bound."""


@dataclass(frozen=True)
class DpWgan:
    """A critic trained on noisy gradients, and a generator trained by the critic; a baseline for experiments only."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        steps=2000, share_columns=0.01, rare=0.0, weight_limit=0.01
    )

    accounting: AccountingName = option("gaussian", '"gaussian", or "paper" for closed-form zCDP.')
    steps: Annotated[int, Bounds(1, 10_000)] = option(20, "Steps of the critic, with equal parts of the budget.")
    turns: Annotated[int, Bounds(1, 1000)] = option(3, "Steps of the generator after each step of the critic.")
    units: Annotated[int, Bounds(1, 256)] = option(16, "Hidden units of each network.")
    rate: Factor = option(0.005, "Step size of the generator.")
    weight_limit: Annotated[float, Bounds(0.001, 10.0)] = option(0.1, "Maximum weight of the critic.")
    share_columns: Share = option(0.3, "Share of the budget for one-way marginals, or for the row count if rare is 0.")
    rare: Deviations = option(
        3.0, "Threshold for merging rare values, in standard deviations; 0: only rows are counted, random start."
    )

    def check(self, domain: Domain) -> None:
        """Validate the budget share, the accounting and the number of attributes."""
        check_shares(share_columns=self.share_columns)
        if find_accounting(self.accounting).is_pure:
            raise MethodError("method dp-wgan adds Gaussian noise, which needs a positive delta. State a delta.")
        if len(domain) > MAX_GRADIENT_COLUMNS:
            raise MethodError(f"method dp-wgan allows at most {MAX_GRADIENT_COLUMNS:,} attributes. Choose tree or mst.")

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> Model:
        """Measure the one-way marginals or the number of rows, then train."""
        d = len(curator.domain)
        each = (1 - self.share_columns) / self.steps
        check_noise(curator, share_columns=(self.share_columns, d))
        check_noise(curator, sensitivity=2.0 * STEPS, steps=(each, 1))
        if self.rare <= 0:
            with report_stage(listener, "count"):
                total = max(float(curator.total(self.share_columns).table), 1.0)
            return self._play(curator, [np.zeros(size) for size in curator.domain.shape], total, rng, listener)
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        total = max(common_total(columns.tables)[0], 1.0)
        # Logarithms of shares; an empty code counts as a tenth of a row.
        logits = [np.log(np.maximum(project_to_simplex(m.table, total), 0.1) / total) for m in columns.tables]
        return columns.unfold(self._play(columns.curator, logits, total, rng, listener))

    def _play(
        self, curator: Curator, logits: list[Array], total: float, rng: np.random.Generator, listener: Listener
    ) -> GeneratorModel:
        """Train critic and generator alternately until the budget is spent."""
        codes = int(sum(curator.domain.shape))
        into = rng.standard_normal((self.units, self.units)) / np.sqrt(self.units)
        out = np.vstack([0.01 * rng.standard_normal((self.units, codes)), np.concatenate(logits)])
        model = GeneratorModel(curator.domain, total, into, out)
        limit = self.weight_limit * STEPS
        critic = self._bounded(
            [rng.standard_normal((size, self.units)) * limit for size in curator.domain.shape],
            np.zeros(self.units),
            rng.standard_normal(self.units) * limit,
        )
        memory = (np.zeros_like(into), np.zeros_like(out))
        pace = PACE * self.weight_limit
        with report_stage(listener, "train", self.steps) as work:
            for left in range(self.steps, 0, -1):
                real = GradientQueries.of(curator).critic_gradient(critic, curator.left / left)
                made = critic.summed(model.draw(MADE, rng), np.ones(MADE, np.int64))
                critic = self._bounded(
                    [
                        w + pace * (r / total - m / MADE)
                        for w, r, m in zip(critic.inner, real.inner, made.inner, strict=True)
                    ],
                    critic.bias + pace * (real.bias / total - made.bias / MADE),
                    critic.outer + pace * (real.outer / total - made.outer / MADE),
                )
                for _ in range(self.turns):
                    model, memory = self._improved(model, critic, memory, rng)
                work.advance()
        return model

    def _bounded(self, inner: list[Array], bias: Array, outer: Array) -> Critic:
        """Return a critic with these weights, rounded to integers within the limit."""
        limit = max(round(self.weight_limit * STEPS), 1)

        def whole(weights: Array) -> Array:
            return np.clip(np.rint(weights), -limit, limit).astype(np.int64)

        return Critic(tuple(map(whole, inner)), whole(bias), whole(outer))

    def _improved(
        self, model: GeneratorModel, critic: Critic, memory: tuple[Array, Array], rng: np.random.Generator
    ) -> tuple[GeneratorModel, tuple[Array, Array]]:
        """Return the generator after one step of gradient ascent on the score (RMSProp, as in WGAN)."""
        normal = rng.standard_normal((MADE, len(model.into)))
        hidden = model.hidden(normal)
        chances = model.chances(hidden)
        inner = [table / STEPS for table in critic.inner]
        sums = critic.bias / STEPS + sum(c @ w for c, w in zip(chances, inner, strict=True))
        back = np.where(
            sums > 0, critic.outer / STEPS, 0.0
        )  # gradient of the score with respect to the critic's hidden units
        steeper = []
        for c, w in zip(chances, inner, strict=True):
            towards = back @ w.T
            steeper.append(c * (towards - (c * towards).sum(axis=1, keepdims=True)))
        logits = np.concatenate(steeper, axis=1)
        units = (logits @ model.out[:-1].T) * (1 - hidden[:, :-1] ** 2)
        rises = (normal.T @ units / MADE, hidden.T @ logits / MADE)
        memory = (0.9 * memory[0] + 0.1 * rises[0] ** 2, 0.9 * memory[1] + 0.1 * rises[1] ** 2)
        into, out = (
            weights + self.rate * rise / (np.sqrt(kept) + 1e-3)
            for weights, rise, kept in zip((model.into, model.out), rises, memory, strict=True)
        )
        return replace(model, into=into, out=out), memory
