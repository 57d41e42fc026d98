"""BSG, plausible deniability (Bindschaedler, Shokri, Gunter; PVLDB 2017): sections 3 and 5.

Noisy entropies tell which attributes to draw given which (correlation-based feature selection); noisy counts of
every family, smoothed by a Dirichlet prior, are the conditional tables. By default every attribute of a record is
drawn from this model. With `omega` and `rows`, that many records are grown from seeds instead: each keeps the first
attributes of a row that passed the privacy test, and has only its last omega attributes drawn.

Where the defaults differ from the paper (`preset="paper"`):
- `parameters` mean, published draw: distributions are drawn from their posterior in the paper.
- `max_cost` null, published 1000: most configurations of an attribute's parents. The paper never states its figure;
  by default theta bounds a table by its noise.
- `tables` shrunk, published cut: by default noisy tables are brought to the number of rows by subtraction, which leaves
  less of the noise on empty cells, and the Dirichlet prior is the child's own distribution, as heavy as the noise; in
  the paper counts are cut at zero, and its tool's prior is uniform with the weight of one row.
- `allocation` weighted, published equal: larger tables have more of the budget.
- `split` null, published [0.49, 0.19, 0.19]: by default structure, parameters and seeds come from all rows, and their
  costs add up, which is better than the paper's division of the rows (docs/decisions/008).

With the preset, too:
- Entropies have their exact sensitivity, scaled so that it holds for every number of rows: the paper trusts a noisy n,
  which is too large half the time.
- Gaussian noise with exact accounting, instead of Laplace with advanced composition; all tables are drawn once, with
  noise from the operating system, where the authors' tool seeds it with a hash that anybody can compute.
- The seeds are paid for as a whole table of records, differentially private as such; k and epsilon0 follow from the
  budget unless given. The paper's own guarantee, record by record, has to be asked for by name (`guarantee =
  "deniability"`), and everything that is released then says that it is not differential privacy.
- Which seeds are plausible is counted exactly. A random omega is drawn for each record before its seed is: for this
  omega they are those with the same kept attributes, and gamma plays no part. `test = "classes"` has the paper's way.
- Entropies are of bucketed attributes, child and parent alike: all correlations that are used are asked for, with the
  fewest questions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft import methods
from weft.bounds import Bounds, Factor, Share
from weft.curator import ENTROPY_STEPS, Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.methods.bsg.entropy_network import Learner, bucket_codes, fits_codes
from weft.methods.bsg.seeded_records import (
    MAX_RECORDS,
    SeededModel,
    check_split,
    grow_by_classes,
    grow_records,
    parse_omegas,
)
from weft.methods.common.discretisation import check_noise, check_shares
from weft.methods.common.options import Published, get_published_settings, only_with, only_without, option
from weft.models.bayesnet import BayesNet, convert_to_network
from weft.privacy import AccountingName, find_accounting
from weft.privacy.deniability import MAX_DENIABLE_ROWS, Acceptance, PlausibleTest
from weft.progress import Listener, ignore_event

_OWN = (only_without("model"),)
"""Options of this recipe's own model."""


@dataclass(frozen=True)
class Bsg:
    """A Bayesian network from noisy entropies; with omega and rows, records grown from seeds that pass a privacy test.

    What the test promises is one of two things. `guarantee="table"`: all records together are differentially private.
    `guarantee="deniability"`: each of them has k plausible seeds, which is not differential privacy.
    """

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        parameters="draw",
        max_cost=1000,
        tables="cut",
        allocation="equal",
        split=(0.49, 0.19, 0.19),
        gamma=4.0,
    )

    accounting: AccountingName = option(
        "gaussian", '"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0.'
    )
    share_total: Share = option(0.01, "Share of the budget for the number of rows.", *_OWN)
    share_structure: Share = option(
        0.3, "Share for the entropies; the rest goes to the conditional tables.", *_OWN, only_without("split")
    )
    theta: Factor = option(
        2.0,
        "A table may be so large that its average count is theta times the deviation of its noise.",
        *_OWN,
        only_without("max_cost"),
    )
    max_cost: Annotated[int | None, Bounds(1, 1 << 24)] = option(
        None, "Most configurations of an attribute's parents (the paper's maxcost); None: as theta says.", *_OWN
    )
    buckets: Annotated[Mapping[str, int | Sequence[int]], Bounds(0, MAX_DENIABLE_ROWS, MAX_DENIABLE_ROWS)] = option(
        {}, "How children see an attribute: runs of so many codes as one bucket, or the bucket of each code.", *_OWN
    )
    tables: Literal["shrunk", "cut"] = option(
        "shrunk",
        "What becomes of noisy tables: they are brought to the number of rows, with a prior of their own; or cut at "
        "zero, with a uniform prior of one row.",
        *_OWN,
    )
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget over tables by cells^(2/3), or their root if pure; or evenly.", *_OWN
    )
    prior: Annotated[float, Bounds(0.0, 1e9)] = option(
        2.0,
        "Weight of the Dirichlet prior of each distribution, in standard deviations of the noise on its number of "
        "rows.",
        *_OWN,
        only_with("tables", "shrunk"),
    )
    parameters: Literal["mean", "draw"] = option(
        "mean", "The posterior mean of each distribution, or a draw from the posterior.", *_OWN
    )
    omega: int | str | Sequence[int] | None = option(
        None,
        'How many attributes of a record are drawn, the others being a seed\'s: a number, or a range such as "5-9" '
        "from which each record draws its own; None: all, and no seeds are needed.",
    )
    rows: Annotated[int | None, Bounds(1, MAX_RECORDS)] = option(
        None, "With omega: the number of records to grow from seeds. More cannot be had later."
    )
    k: Annotated[int | None, Bounds(1, MAX_DENIABLE_ROWS)] = option(
        None, "Seeds that must be plausible; None: as the budget needs it."
    )
    epsilon0: Annotated[float | None, Bounds(1e-4, 100.0)] = option(
        None,
        "Noise on k is Laplace of scale 1/epsilon0; None: as the budget needs it, and none for deniability (Test 1).",
    )
    share_seeds: Share = option(
        0.5,
        "With omega: share of the budget for the seeds; the model has the rest. Not with split or deniability.",
        only_with("omega"),
        only_with("guarantee", "table"),
        only_without("split"),
    )
    guarantee: Literal["table", "deniability"] = option(
        "table",
        '"table": the records together are differentially private. "deniability": each record has k plausible seeds, '
        "and NO differential privacy is claimed for them; the budget is for the model alone.",
    )
    test: Literal["omega", "classes"] = option(
        "omega",
        "Deniability: seeds are plausible for the omega that was drawn; or within gamma for an omega that is not told "
        "(Mechanism 1: one attempt a record, and drawn whole if it fails).",
        only_with("guarantee", "deniability"),
    )
    gamma: Annotated[float, Bounds(1.0, 1e9)] = option(
        4.0,
        "Deniability: factor within which the chances of plausible seeds lie. Without classes they are equal, and it "
        "changes nothing but the figure of Theorem 1.",
        only_with("guarantee", "deniability"),
    )
    max_plausible: Annotated[int | None, Bounds(1, MAX_DENIABLE_ROWS)] = option(
        None, "Deniability: plausible seeds at which counting stops."
    )
    max_check_plausible: Annotated[int | None, Bounds(1, MAX_DENIABLE_ROWS)] = option(
        None, "Deniability: rows, chosen at random, among which plausible seeds are counted."
    )
    split: Annotated[Sequence[float] | None, Bounds(0.0, 1.0)] = option(
        None,
        "Chances of a row to serve as seed, for the structure, and for the parameters, such as [0.5, 0.25, 0.25]; "
        "each part then has the whole budget. None: all rows serve for everything and costs add up, which is better "
        "as a rule. Without omega, rows for seeds serve nothing.",
    )
    model: str | None = option(
        None,
        "With omega: the method whose model draws the other attributes, in place of this one's own, such as mst, tree "
        "or privbayes.",
    )
    model_options: Mapping[str, Any] = option({}, "Options of that method.")

    @property
    def deniable(self) -> bool:
        """Whether records are to leave for which no differential privacy is claimed."""
        return self.guarantee == "deniability"

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for a step, seeds that cannot be had, and buckets that do not fit."""
        self._check_model_of_its_own(domain)
        grown = bool(parse_omegas(self.omega, domain))
        if grown:
            self._check_seeds()
        self._check_deniability(grown)
        if not grown and (self.k, self.epsilon0) != (None, None):
            raise MethodError(
                "options k and epsilon0: only with omega, below the number of columns. Where all columns are drawn, "
                "there are no seeds to test."
            )
        assert self.paper is not None
        check_split(self.split, grown, self.paper["split"])
        self._check_model(domain, grown)

    def _check_model_of_its_own(self, domain: Domain) -> None:
        check_shares(share_total=self.share_total, share_structure=self.share_structure)
        for name, buckets in self.buckets.items():
            if name not in domain:
                raise MethodError(f"option buckets: there is no column {name!r}. Check its spelling.")
            if not fits_codes(buckets, domain.size(name)):
                raise MethodError(
                    f"option buckets: {name!r} needs a run length of 1 or more, or a bucket, counted from 0 without "
                    f"gaps, for each of its {domain.size(name)} codes"
                )

    def _check_seeds(self) -> None:
        if self.rows is None or not 1 <= self.rows <= MAX_RECORDS:
            raise MethodError(
                f"option omega: say how many records to grow, with --rows (in Python, rows): 1 to {MAX_RECORDS:,}"
            )
        if self.guarantee == "deniability":
            return
        if not find_accounting(self.accounting).pays_for_seeds:
            raise MethodError(
                "option omega: seeds need a delta. Choose gaussian accounting, or leave it out to draw all"
            )
        if not 0 < self.share_seeds < 1:
            raise MethodError("option seeds: a share of the budget between 0 and 1, so that some is left for the model")
        if (self.k is None) != (self.epsilon0 is None):
            raise MethodError("options k and epsilon0: give both, or neither to have them chosen")
        self._given_test()

    def _check_deniability(self, grown: bool) -> None:
        if self.guarantee == "table":
            if (self.max_plausible, self.max_check_plausible) != (None, None):
                raise MethodError(
                    'options max_plausible and max_check_plausible: only with guarantee = "deniability"; for a whole '
                    "table every seed is counted"
                )
            return
        if not grown or self.k is None:
            raise MethodError(
                'option guarantee: "deniability" needs omega, below the number of columns, and k. Where all columns '
                "are drawn, no seed has to be deniable and the release is differentially private as it is."
            )
        self._plausible_test()
        if self.test == "classes" and self.max_check_plausible is not None:
            raise MethodError('option max_check_plausible: test = "classes" counts among all rows; leave it out')

    def _check_model(self, domain: Domain, grown: bool) -> None:
        if self.model is None:
            if self.model_options:
                raise MethodError("option model_options: say whose options they are with model")
            return
        methods.resolve_method_name(self.model)
        others = methods.list_seed_methods()
        if self.model not in others:
            raise MethodError(f"option model: not every model can complete a seed; choose of {', '.join(others)}")
        if not grown:
            raise MethodError(f"option model: without omega no seeds are used; choose the method {self.model!r} itself")
        if self.guarantee == "table" and self.split is None:
            # Other recipes spend all of a budget, and seeds that share rows with them need some of it.
            raise MethodError(
                "option model: another method's model leaves no budget for seeds. Give seeds rows of their own with "
                'split, or choose guarantee = "deniability", which is not differential privacy'
            )
        made = self._inner()
        if made.accounting != self.accounting:
            raise MethodError(
                f"option model: method {self.model!r} needs accounting = {made.accounting!r}, not {self.accounting!r}"
            )
        made.check(domain)

    def _inner(self) -> methods.Method:
        """Return the recipe of another model, with this one's accounting if it has a choice."""
        assert self.model is not None
        same = {"accounting": self.accounting} if methods.takes_option(self.model, "accounting") else {}
        return methods.make_method(self.model, **same, **self.model_options)

    def fit(
        self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event
    ) -> BayesNet | SeededModel:
        """Learn the model, then grow records from seeds if asked to."""
        drawn = parse_omegas(self.omega, curator.domain)
        deniable = self.deniable
        self._check_noise(curator, bool(drawn) and not deniable)
        if drawn:
            curator.check_deniable() if deniable else curator.check_seeds()
        seeds, structure, parameters = self._divided(curator)
        if self.model is None:
            aside = self.share_seeds if drawn and not deniable and self.split is None else 0.0
            model = self._learner(curator.domain).learn(structure, parameters, aside, rng, listener)
        else:
            model = convert_to_network(self._inner().fit(parameters, rng, listener))
        if self.split is not None:
            model = replace(model, total=max(1.0, model.total / self._learned_from()))
        if not drawn:
            return model
        assert self.rows is not None
        if self.test == "classes" and deniable:
            return grow_by_classes(seeds, model, drawn, self.rows, self._plausible_test(), rng, listener)
        test = self._plausible_test() if deniable else self._given_test()
        served = 1.0 if self.split is None else self.split[0]
        return grow_records(seeds, model, drawn, self.rows, test, served, rng, listener)

    def _check_noise(self, curator: Curator, aside: bool) -> None:
        """Refuse what could not be paid for later; entropies are asked in thousandths of their sensitivity."""
        if self.model is not None:
            return  # the other recipe looks for itself
        apart, d = self.split is not None, len(curator.domain)
        left = 1 - self.share_seeds if aside and not apart else 1.0
        check_noise(curator, share_total=(left * self.share_total, 1))
        structure = 1 - self.share_total if apart else left * self.share_structure
        check_noise(curator, sensitivity=2 * ENTROPY_STEPS, share_structure=(structure, d + math.comb(d, 2)))

    def _learner(self, domain: Domain) -> Learner:
        seen = bucket_codes(self.buckets, domain)
        return Learner(
            seen,
            self.share_total,
            self.share_structure,
            self.theta,
            self.prior,
            self.parameters == "draw",
            self.max_cost,
            self.tables == "cut",
            self.allocation == "equal",
        )

    def _divided(self, curator: Curator) -> tuple[Curator, Curator, Curator]:
        """Return the rows for seeds, structure and parameters: three parts, or all rows for each."""
        if self.split is None:
            return curator, curator, curator
        seeds, structure, parameters = self.split
        if self.model is not None:
            made = curator.split({"seeds": seeds, "model": structure + parameters})
            return made["seeds"], made["model"], made["model"]
        chances = {"seeds": seeds, "structure": structure, "parameters": parameters}
        made = curator.split({part: chance for part, chance in chances.items() if chance})
        return made.get("seeds", curator), made["structure"], made["parameters"]

    def _learned_from(self) -> float:
        """Return the chance of a row to count towards the model's total."""
        assert self.split is not None
        return self.split[2] if self.model is None else self.split[1] + self.split[2]

    def _given_test(self) -> Acceptance | None:
        if self.k is None or self.epsilon0 is None:
            return None
        return Acceptance(self.k, self.epsilon0)

    def _plausible_test(self) -> PlausibleTest:
        assert self.k is not None
        return PlausibleTest(self.k, self.epsilon0, self.gamma, self.max_plausible, self.max_check_plausible)
