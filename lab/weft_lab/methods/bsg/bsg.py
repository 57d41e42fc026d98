"""BSG, plausible deniability (Bindschaedler, Shokri, Gunter; PVLDB 2017): sections 3 and 5.

Noisy entropies select the parents of each attribute (correlation-based feature selection); noisy counts of every
family, smoothed by a Dirichlet prior, give the conditional distributions. By default, all attributes of a record are
sampled from this model. With `omega` and `rows`, that many records are completed from seeds instead: each keeps the
first attributes of a row that passed the privacy test, and only its last omega attributes are sampled.

Where the defaults differ from the paper (`preset="paper"`):
- `parameters` mean, published draw: in the paper, distributions are drawn from their posterior.
- `max_cost` null, published 100: maximum configurations of an attribute's parents. The paper does not state its value;
  by default, theta bounds a table by its noise.
- `tables` shrunk, published cut: by default, noisy tables are projected to the number of rows, which leaves less noise
  on empty cells, and the Dirichlet prior is the marginal distribution of the child, weighted by the noise; in the
  paper, counts are clipped at zero, and its tool has a uniform prior with the weight of one row.
- `allocation` weighted, published equal: by default, larger tables get more of the budget.
- `split` null, published [0.49, 0.19, 0.19]: by default, structure, parameters and seeds use all rows and their costs
  add up, which is better than the paper's partition of the rows (docs/decisions/008). Without seeds, the published
  structure and parameters have half of the rows each.
- `amplify` false, published true: the amplification by sampling of the parts is spent (section 3.5).
- `accounting` gaussian, published laplace: by default, Gaussian noise is accounted exactly; published noise is Laplace.

With the preset as well:
- Added query, number of rows (rows for parameters): it decides how many records are sampled by default.
- Advanced composition is replaced by the closed form of zCDP, which proves a smaller epsilon for the same noise: its
  first term is sum epsilon_i^2 / 2, where advanced composition has sum epsilon_i (exp(epsilon_i), less 1). Structure
  and parameters each have the whole budget, of which the counts of rows get 1%; the paper does not state its division.
- The paper does not state maxcost: 100 and 1,000 are compared by `weft bench bsg-maxcost`.
- Entropies have their exact sensitivity, scaled so that it holds for every number of rows: the paper uses that of a
  noisy n, which is too large half the time.
- All tables are drawn once, with randomness from the operating system, where the authors' tool seeds it with a hash
  that anyone can compute.
- Amplification needs neighbours that add or remove a row and a run without other queries; otherwise it is not spent.
- Seeds are charged for the whole table of records, which is differentially private; k and epsilon0 follow from the
  budget unless given. The paper's own guarantee, per record, requires `guarantee = "deniability"`, and everything
  released then states that it is not differential privacy.
- Plausible seeds are counted exactly. A random omega is drawn for each record before its seed: plausible seeds are then
  the rows with the same kept attributes, and gamma has no effect. `test = "classes"` implements the paper's test.
- Entropies are those of bucketed attributes, child and parent alike: this gives all correlations that are used with the
  fewest queries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft import methods
from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.options import Published, get_published_settings, only_with, only_without, option
from weft.privacy import AccountingName, find_accounting
from weft.privacy.deniability import MAX_DENIABLE_ROWS, Acceptance, PlausibleTest
from weft.progress import Listener, ignore_event
from weft_lab.methods.bayesnet import BayesNet, convert_to_network
from weft_lab.methods.bsg.entropy_network import Learner, bucket_codes, fits_codes
from weft_lab.methods.bsg.seeded_records import (
    MAX_RECORDS,
    SeededModel,
    check_split,
    grow_by_classes,
    grow_records,
    parse_omegas,
)
from weft_lab.queries.entropy_queries import ENTROPY_STEPS
from weft_lab.queries.seed_queries import SeedQueries

_OWN = (only_without("model"),)
"""Condition of the options of BSG's own model."""


def list_seed_methods() -> list[str]:
    """Return the methods whose models can complete seeds."""
    return [name for name in methods.METHODS if methods.get_method_class(name).completes_seeds]


@dataclass(frozen=True)
class Bsg:
    """A Bayesian network from noisy entropies; with omega and rows, records completed from seeds that pass a test.

    Privacy: with `guarantee="table"`, all records together are differentially private. With `guarantee="deniability"`,
    each record has k plausible seeds, which is not differential privacy.
    """

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="laplace",
        parameters="draw",
        max_cost=100,
        tables="cut",
        allocation="equal",
        split=(0.49, 0.19, 0.19),
        amplify=True,
        gamma=4.0,
    )

    accounting: AccountingName | Literal["laplace"] = option(
        "gaussian", '"gaussian"; "laplace", geometric noise as published; "pure", geometric noise and delta 0.'
    )
    share_total: Share = option(0.01, "Share of the budget for the number of rows.", *_OWN)
    share_structure: Share = option(0.3, "Share for entropies; the rest is for tables.", *_OWN, only_without("split"))
    theta: Factor = option(
        2.0, "Minimum ratio of a table's average count to its noise.", *_OWN, only_without("max_cost")
    )
    max_cost: Annotated[int | None, Bounds(1, 1 << 24)] = option(
        None, "Maximum configurations of an attribute's parents (the paper's maxcost); None: limited by theta.", *_OWN
    )
    buckets: Annotated[Mapping[str, int | Sequence[int]], Bounds(0, MAX_DENIABLE_ROWS, MAX_DENIABLE_ROWS)] = option(
        {}, "Buckets of an attribute as a parent: the number of codes per bucket, or the bucket of each code.", *_OWN
    )
    tables: Literal["shrunk", "cut"] = option(
        "shrunk",
        "Noisy tables are projected to the number of rows, with a prior from the child's marginal; or clipped at zero, "
        "with a uniform prior of one row.",
        *_OWN,
    )
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget by cells^(2/3), if pure by cells^(1/2); or evenly.", *_OWN
    )
    prior: Annotated[float, Bounds(0.0, 1e9)] = option(
        2.0, "Weight of the Dirichlet prior, in standard deviations of noise.", *_OWN, only_with("tables", "shrunk")
    )
    parameters: Literal["mean", "draw"] = option("mean", "Posterior mean, or a draw from the posterior.", *_OWN)
    omega: int | str | Sequence[int] | None = option(
        None,
        "Number of attributes of a record that are sampled; the others are from its seed. A number, or a range such as "
        '"5-9" from which each record draws its own. None: all, without seeds.',
    )
    rows: Annotated[int | None, Bounds(1, MAX_RECORDS)] = option(
        None, "With omega: the number of records to complete from seeds. No more can be sampled later."
    )
    k: Annotated[int | None, Bounds(1, MAX_DENIABLE_ROWS)] = option(
        None, "Seeds that must be plausible; None: derived from the budget."
    )
    epsilon0: Annotated[float | None, Bounds(1e-4, 100.0)] = option(
        None, "Laplace noise on k of scale 1/epsilon0; None: automatic, no noise for deniability (Test 1)."
    )
    share_seeds: Share = option(
        0.5,
        "With omega: share of the budget for the seeds; the rest is for the model. Not with split or deniability.",
        only_with("omega"),
        only_with("guarantee", "table"),
        only_without("split"),
    )
    guarantee: Literal["table", "deniability"] = option(
        "table",
        '"table": the records together are differentially private. "deniability": each record has k plausible seeds, '
        "and NO differential privacy is claimed for them; the budget covers the model only.",
    )
    test: Literal["omega", "classes"] = option(
        "omega",
        "Deniability: seeds are plausible for the omega that was drawn; or within gamma for a secret omega "
        "(Mechanism 1: one attempt per record, all of it sampled if that fails).",
        only_with("guarantee", "deniability"),
    )
    gamma: Annotated[float, Bounds(1.0, 1e9)] = option(
        4.0,
        "Deniability: maximum ratio of the likelihoods of plausible seeds. Without classes they are equal, and it "
        "changes only the bound of Theorem 1.",
        only_with("guarantee", "deniability"),
    )
    max_plausible: Annotated[int | None, Bounds(1, MAX_DENIABLE_ROWS)] = option(
        None, "Deniability: number of plausible seeds at which counting stops."
    )
    max_check_plausible: Annotated[int | None, Bounds(1, MAX_DENIABLE_ROWS)] = option(
        None, "Deniability: number of random rows among which plausible seeds are counted."
    )
    split: Annotated[Sequence[float] | None, Bounds(0.0, 1.0)] = option(
        None,
        "Probabilities that a row is used for seeds, structure and parameters, such as [0.5, 0.25, 0.25]; each part "
        "then has the whole budget. None: all rows are used for everything and costs add up, which is usually better.",
    )
    amplify: bool = option(
        False,
        "Spend the amplification by sampling of the parts (section 3.5), where no other query is made of the rows.",
        only_with("split"),
    )
    model: str | None = option(None, "With omega: another method whose model completes the seeds, such as mst or tree.")
    model_options: Mapping[str, Any] = option({}, "Options of that method.")

    @property
    def deniable(self) -> bool:
        """Whether records are released for which no differential privacy is claimed."""
        return self.guarantee == "deniability"

    def check(self, domain: Domain) -> None:
        """Validate shares, buckets, seeds, privacy test, split and inner model."""
        self._check_model_of_its_own(domain)
        grown = bool(parse_omegas(self.omega, domain))
        if grown:
            self._check_seeds()
        self._check_deniability(grown)
        if not grown and (self.k, self.epsilon0) != (None, None):
            raise MethodError("options k and epsilon0: allowed only with omega, below the number of attributes.")
        assert self.paper is not None
        check_split(self.split, grown, self.paper["split"])
        self._check_model(domain, grown)

    def _check_model_of_its_own(self, domain: Domain) -> None:
        check_shares(share_total=self.share_total, share_structure=self.share_structure)
        for name, buckets in self.buckets.items():
            if name not in domain:
                raise MethodError(f"option buckets: there is no attribute {name!r}. Check its spelling.")
            if not fits_codes(buckets, domain.size(name)):
                raise MethodError(
                    f"option buckets: {name!r} needs the number of codes per bucket, 1 or more, or for each of its "
                    f"{domain.size(name)} codes a bucket, numbered from 0 without gaps"
                )

    def _check_seeds(self) -> None:
        if self.rows is None or not 1 <= self.rows <= MAX_RECORDS:
            raise MethodError(f"option omega needs --rows (in Python, rows), a number from 1 to {MAX_RECORDS:,}")
        if self.guarantee == "deniability":
            return
        if not find_accounting(self.accounting).pays_for_seeds:
            raise MethodError("option omega: seeds need a delta. Use gaussian accounting, or leave omega out")
        if not 0 < self.share_seeds < 1:
            raise MethodError("option share_seeds: expected a share of the budget between 0 and 1")
        if (self.k is None) != (self.epsilon0 is None):
            raise MethodError("options k and epsilon0: give both, or neither to derive them from the budget")
        self._given_test()

    def _check_deniability(self, grown: bool) -> None:
        if self.guarantee == "table":
            if (self.max_plausible, self.max_check_plausible) != (None, None):
                raise MethodError('options max_plausible and max_check_plausible need guarantee = "deniability"')
            return
        if not grown or self.k is None:
            raise MethodError(
                'option guarantee: "deniability" needs omega, below the number of attributes, and k. If all attributes '
                "are sampled, there are no seeds and the release is differentially private."
            )
        self._plausible_test()
        if self.test == "classes" and self.max_check_plausible is not None:
            raise MethodError('option max_check_plausible: test = "classes" counts all rows. Leave it out')

    def _check_model(self, domain: Domain, grown: bool) -> None:
        if self.model is None:
            if self.model_options:
                raise MethodError("option model_options has no effect unless model is given. Name a method with model")
            return
        methods.resolve_method_name(self.model)
        others = list_seed_methods()
        if self.model not in others:
            raise MethodError(f"option model: this model cannot complete seeds. Choose one of {', '.join(others)}")
        if not grown:
            raise MethodError(f"option model: without omega, there are no seeds. Choose method {self.model!r} itself")
        if self.guarantee == "table" and self.split is None:
            # Other methods spend the whole budget, and seeds from the same rows need some of it.
            raise MethodError(
                "option model: another method leaves no budget for seeds. Reserve rows for seeds with split, or choose "
                'guarantee = "deniability", which is not differential privacy'
            )
        made = self._inner()
        if made.accounting != self.accounting:
            raise MethodError(
                f"option model: method {self.model!r} needs accounting = {made.accounting!r}, not {self.accounting!r}"
            )
        made.check(domain)

    def _inner(self) -> methods.Method:
        """Return the method of the inner model, with this accounting if it has that option."""
        assert self.model is not None
        same = {"accounting": self.accounting} if methods.takes_option(self.model, "accounting") else {}
        return methods.make_method(self.model, **same, **self.model_options)

    def fit(
        self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event
    ) -> BayesNet | SeededModel:
        """Fit the model, then complete records from seeds if omega is given."""
        drawn = parse_omegas(self.omega, curator.domain)
        deniable = self.deniable
        self._check_noise(curator, bool(drawn) and not deniable)
        if drawn:
            asked = SeedQueries.of(curator)
            asked.check_deniable() if deniable else asked.check_seeds()
        seeds, structure, parameters = self._divided(curator)
        if self.model is None:
            aside = self.share_seeds if drawn and not deniable and self.split is None else 0.0
            model = self._learner(curator.domain).learn(structure, parameters, aside, rng, listener)
        else:
            model = convert_to_network(self._inner().fit(parameters, rng, listener))
        if self.split is not None:
            _, *learned = self._chances()
            model = replace(model, total=max(1.0, model.total / (learned[1] if self.model is None else sum(learned))))
        if not drawn:
            return model
        assert self.rows is not None
        if self.test == "classes" and deniable:
            return grow_by_classes(seeds, model, drawn, self.rows, self._plausible_test(), rng, listener)
        test = self._plausible_test() if deniable else self._given_test()
        served = 1.0 if self.split is None else self._chances()[0]
        return grow_records(seeds, model, drawn, self.rows, test, served, rng, listener)

    def _check_noise(self, curator: Curator, aside: bool) -> None:
        """Refuse shares too small for the noise; entropies are measured in 1/ENTROPY_STEPS of their sensitivity."""
        if self.model is not None:
            return  # the inner method checks its own
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
        """Return the curators for seeds, structure and parameters: disjoint parts, or all rows for each."""
        if self.split is None:
            return curator, curator, curator
        seeds, structure, parameters = self._chances()
        unpriced = {"seeds"} if self.deniable else set()
        if self.model is not None:
            chances = {"seeds": seeds, "model": structure + parameters}
        else:
            chances = {"seeds": seeds, "structure": structure, "parameters": parameters}
        chances = {part: chance for part, chance in chances.items() if chance}
        made = curator.split(chances, [part for part in chances if part not in unpriced] if self.amplify else ())
        learned = made.get("model")
        return made.get("seeds", curator), learned or made["structure"], learned or made["parameters"]

    def _chances(self) -> tuple[float, float, float]:
        """Return the probabilities of the parts: without seeds, structure and parameters share all rows."""
        assert self.split is not None
        seeds, structure, parameters = self.split
        if self.omega is None and seeds:
            return 0.0, structure / (structure + parameters), parameters / (structure + parameters)
        return seeds, structure, parameters

    def _given_test(self) -> Acceptance | None:
        if self.k is None or self.epsilon0 is None:
            return None
        return Acceptance(self.k, self.epsilon0)

    def _plausible_test(self) -> PlausibleTest:
        assert self.k is not None
        return PlausibleTest(self.k, self.epsilon0, self.gamma, self.max_plausible, self.max_check_plausible)
