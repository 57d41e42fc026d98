"""DPSyn's figure 2, and the scores of NIST's challenge of 2018."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from weft.marginals.domain import Domain, make_clique
from weft.marginals.records import Records
from weft.methods.common.options import PAPER
from weft_lab import acs, mechanisms
from weft_lab.experiment import Experiment, Reckoned, Variant
from weft_lab.fire import fire_plan
from weft_lab.methods.tree_growth import grow_tree

DPSYN = "DPSyn (J. Privacy and Confidentiality 2021)"
TINY = 1e-10
WAGES = ((acs.AREA, acs.GENDER, acs.WAGE), ("AGEP", acs.WAGE), ("SCHL", acs.WAGE), ("WKHP", acs.WAGE), ("MAR", "AGEP"))
"""Marginals of the wages: the one of the third score, which records match exactly, and pairs with the wage."""


def planned(records: Records) -> Mapping[str, Any]:
    """Return the plan of marginals for the fire calls or the wages; of other tables, none (random views)."""
    names = set(records.domain)
    if set(WAGES[0]) <= names:
        sets = [
            {"columns": list(WAGES[0]), "exact": True},
            *({"columns": list(c)} for c in WAGES[1:] if set(c) <= names),
        ]
        return {"marginals": {"marginals": sets}}
    if {"Unit Type", "Call Type", "Received DtTm"} <= names:
        return {"marginals": fire_plan(list(records.domain)).to_dict()}
    return {}


def fitting(records: Records) -> Mapping[str, Any]:
    """Return the same plan for PGM: of its marginals, in their order, those that a junction tree holds together."""
    plan = planned(records).get("marginals")
    if plan is None:
        return {}
    sizes = dict(zip(records.domain.names, records.domain.shape, strict=True))
    sizes |= {each["name"]: 1 << len(each["columns"]) for each in plan.get("presence", ())}
    for group in plan.get("groups", ()):  # counted as one attribute
        sizes |= dict.fromkeys(group["columns"], math.prod(sizes[name] for name in group["columns"]))
    kept, items = list[dict[str, Any]](), list[tuple[Any, dict[str, Any]]]()
    for entry in plan["marginals"]:
        rest = {key: value for key, value in entry.items() if key == "above"}
        sets = [entry["columns"]] if "columns" in entry else entry.get("sets") or combinations(entry["pairs_of"], 2)
        items += [(make_clique(names), rest) for names in sets]
    tree = grow_tree(Domain(tuple(sizes), tuple(sizes.values())), [c for c, _ in items])
    for c, rest in items:
        if any(set(c) <= set(clique) for clique in tree.cliques):
            kept.append({"columns": list(c), **rest})
    return {"marginals": {**plan, "marginals": kept}}


LINES = {
    "DPSyn": Variant("dpsyn", preset=PAPER, sized=planned),
    "DPSyn, our defaults": Variant("dpsyn", sized=planned),
    "PGM(Manual)": Variant("pgm", preset=PAPER, sized=fitting),
    "PrivSyn": Variant("privsyn"),
    "PrivMRF": Variant("privmrf"),
    "MST": Variant("mst"),
    "AIM": Variant("aim"),
    "Independent": Variant("independent"),
}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

EXPERIMENTS = (
    Experiment(
        name="dpsyn-figure2",
        paper=f"{DPSYN}, figure 2",
        about="at how many marginals Laplace noise that adds up is as large as Gaussian noise under zCDP",
        reckoned=Reckoned(tuple(mechanisms.CROSSINGS), mechanisms.crossings, anywhere="any table"),
        epsilons=(1.0,),
        delta=TINY,
    ),
    Experiment(
        name="dpsyn-nist",
        paper=f"{DPSYN}, section 5.1",
        about="density and range scores of the NIST 2018 challenge, ranges of sets of values; 1 is perfect",
        variants=LINES,
        tasks=("nist_density", "nist_range", "nist_mean"),
        epsilons=EPSILONS,
        delta=TINY,
    ),
    Experiment(
        name="dpsyn-gini",
        paper=f"{DPSYN}, section 5.1",
        about="Gini index and rank by gender pay gap of each area, in the manner of NIST's third score; 1 is perfect",
        variants=LINES,
        tasks=("gini", "nist_density", "nist_range", "nist_mean"),
        epsilons=EPSILONS,
        delta=TINY,
    ),
)
