"""Fit of related tables: open, one model per table on a weighted view, then tables of siblings.

| stage | query | weights, mass of a unit |
|---|---|---|
| root | weave on its attributes and its numbers of children | 1, mass 1 |
| child table | weave on its attributes and those of its parent | floor(W / K), mass W |
| siblings | distances of the model, then the chosen tables of two siblings | floor(W / (K (k - 1))), mass W |
| consecutive rows, with a time column | the same, instead of siblings | floor(W / (K (k - 1))), mass W |

Every query is charged to one ledger, whose privacy unit is the value of the root's key (`weft.engines.family_rows`).
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.curator import Curator, DryRunCurator, DryRunError
from weft.encoding import Codec
from weft.engines.family_rows import (
    MAX_SIBLINGS,
    Families,
    count_name,
    gap_name,
    open_families,
    own_domain,
    pair_domain,
    pair_name,
    pair_weight,
    parent_name,
    row_weight,
    view_domain,
)
from weft.engines.memory_engine import MemoryEngine
from weft.engines.sources import open_reader, source_name, table_identity
from weft.errors import MethodError, SchemaError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal, Measured
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.marginals.pooling import Released
from weft.marginals.records import Records, sibling_pairs
from weft.marginals.simplex import project_to_simplex
from weft.marginals.value_groups import coarse_groups, keep_frequent, merge_similar, sum_by_codes
from weft.methods.common.discretisation import Arrangement, check_resolution, coarse_domain, resolution_share
from weft.methods.weave.batch_selection import choose_budgets, shrink_distances
from weft.models import Model
from weft.models.recoded import RecodedModel
from weft.privacy import Ledger
from weft.privacy.ledger import open_run_ledger
from weft.privacy.noise import MAX_NOISE_SCALE
from weft.progress import ignore_event, report_stage
from weft.schema.database import Database, RelatedTable
from weft.schema.family_rules import FamilyRule
from weft.schema.kinds.numeric_bins import Number
from weft.schema.schema import check_names
from weft.synthesis.database_discovery import check_complete_tables, complete_database, widen_bounds
from weft.synthesis.database_model import FittedDatabase, LinkTargets, SampledRows, find_dependence
from weft.synthesis.database_plan import DatabasePlan
from weft.synthesis.discovery import Discovered
from weft.synthesis.history_model import role_mask, time_attributes
from weft.synthesis.pipeline import learn_model

SHARE_RESOLUTION = 0.25
"""Share of a table's budget for the resolution of numbers and dates: joint tables are coarser than elsewhere."""

PART_SCORES = 0.1
"""Part of the budget for siblings that is spent on distances, by which tables are chosen."""

MAX_LINK_GROUPS = 16
"""Maximum groups of an attribute in tables of siblings."""

MAX_LINKS = 2
"""Tables of persons and rows, per attribute of a row, towards which histories are linked: the most dependent."""

MAX_CROSSED = 6
"""Number of attributes up to which all tables of consecutive rows are candidates, also of two different attributes."""

MAX_GROUPS_IN_TIME = 8
"""The same in tables of consecutive rows, since rows are exchanged within one time only."""
MIN_LINK_GROUPS = 4

MAX_PAIR_NOISE = 0.4
"""Noise of a table of two rows, in standard deviations times cells per family, that limits its groups."""

MIN_SIZE_CLASS = 0.06
"""Least share of families in the class of the largest sizes."""

PAIRS = ("consecutive rows", "siblings")
"""What pairs of rows are: in a table with a time column, or without."""

MAX_EXPECTED = 30_000
"""Families sampled to estimate what the model expects of siblings."""


def fit_database(plan: DatabasePlan) -> tuple[FittedDatabase, dict[str, Discovered]]:
    """Run all stages of a fit of related tables; also return what was discovered in each table."""
    opened = None if plan.searches else open_tables(plan)
    if plan.searches:
        check_complete_tables(plan.database, plan.sources, plan.dialect)
    names = {name: source_name(source) for name, source in plan.sources.items()}
    places = [table_identity(source) for source in plan.sources.values()]
    identity = None if None in places else "\n".join(sorted(map(str, places)))
    facts = {"source": ", ".join(names.values()), "identity": identity, "method": "weave"}
    journal = None if plan.request.journal is None else Path(plan.request.journal)
    with open_run_ledger(plan.terms, plan.lifetime, journal=journal, stamps=plan.stamps, facts=facts) as ledger:
        found: dict[str, Discovered] = {}
        if plan.searches:
            least = widen_bounds(plan.database, 2)
            check_budget(replace(plan, database=least, left=1 - plan.request.discover), ledger)
            database, found = complete_database(plan.database, plan.searches, ledger, plan.release)
            ledger.bound_contributions(database.rows_per_unit)
            plan = replace(plan, database=database, left=ledger.left / ledger.capacity)
        return fit_stages(plan, ledger, opened), found


def open_tables(plan: DatabasePlan) -> tuple[Families, dict[str, Any]]:
    """Open and encode all private tables; return their rows, and their columns and types."""
    described = _describe_columns(plan)
    families = open_families(plan.database, plan.sources, plan.references, dialect=plan.dialect, listener=plan.listener)
    check_roles(plan.database, families.codecs)
    return families, described


def fit_stages(
    plan: DatabasePlan, ledger: Ledger, opened: tuple[Families, dict[str, Any]] | None = None
) -> FittedDatabase:
    """Spend what is left of the budget on the rows of each table, and on their pairs."""
    database, (families, described) = plan.database, opened or open_tables(plan)
    seed = secrets.randbits(64) if plan.request.seed is None else plan.request.seed
    stages = _Stages(plan, families, ledger, np.random.default_rng(seed))
    for table in database.private:
        stages.check(table)  # before the first charge
    for table in database.private:
        stages.fit_rows(table)
        if table.parent is not None:
            stages.collect_links(table)
        if (table.name, "siblings") in plan.shares:
            stages.fit_siblings(table)
    return FittedDatabase(
        database, described | {"classes": stages.classes}, families.codecs, stages.models, stages.targets, ledger,
        plan.public, stages.measured, stages.released,
    )  # fmt: skip


def check_budget(plan: DatabasePlan, ledger: Ledger) -> None:
    """Refuse a budget whose noise could not be drawn whatever discovery finds, even for three columns of two values."""
    least = Domain(("a", "b", "c"), (2, 2, 2))
    for table in plan.database.private:
        engine = MemoryEngine(Records.empty(least), mass=row_weight(plan.database, table.name))
        share = plan.shares[table.name, "rows"]
        with suppress(DryRunError):
            curator = DryRunCurator(engine, ledger, plan.release, least, share, None, 1.0)
            plan.method.fit(curator, np.random.default_rng(0), ignore_event)


def check_stages(plan: DatabasePlan) -> None:
    """Refuse what the stages of a fit would refuse; nothing is charged."""
    families, _ = open_tables(plan)
    with open_run_ledger(plan.terms, None, journal=None, stamps=(), facts={}) as ledger:
        stages = _Stages(plan, families, ledger, np.random.default_rng(0))
        for table in plan.database.private:
            stages.check(table)


def check_roles(database: Database, codecs: Mapping[str, Codec]) -> None:
    """Refuse roles that codes do not tell apart, and roles that a row could have together."""
    for table in database.private:
        rules = database.roles(table.name)
        masks = [role_mask(rule, codecs[table.name])[1] for rule in rules]
        if masks and (np.sum(masks, axis=0) > 1).any():
            raise SchemaError(f'table "{table.name}": two family rules name the same role; a value may have one only')
        if masks and np.any(masks, axis=0).all() and table.max_children > len(rules):
            raise SchemaError(
                f'table "{table.name}": every value has a role that a family has once only, so that a family has at '
                f"most {len(rules)} rows: set max_children = {len(rules)}, or list another value"
            )
        for rule in database.rules:
            if rule.child == table.name and rule.kind == "final" and role_mask(rule, codecs[table.name])[1].all():
                raise SchemaError(f"family rule: {rule}: every value is final; leave it out, or list another value")


def _describe_columns(plan: DatabasePlan) -> dict[str, Any]:
    """Return the columns of each private table in its order, and the types of those that rules compute: public."""
    columns, types = {}, {}
    for table in plan.database.private:
        schema = plan.dialect.marking(table.schema)
        read = open_reader(plan.sources[table.name], schema, 1 << 17, plan.dialect).schema
        check_names(schema, read.names)
        columns[table.name] = [name for name in read.names if name in table.schema]
        types[table.name] = {name: str(read.field(name).type) for name in plan.database.defined(table.name)}
        for name, kind in types[table.name].items():
            try:
                _check_computed(plan.database, plan.database.defined(table.name)[name], pa.type_for_alias(kind))
            except ValueError:
                raise SchemaError(
                    f'table "{table.name}": a computed column "{name}" cannot be of type {kind}'
                ) from None
    return {"columns": columns, "types": types}


def _check_computed(database: Database, rule: FamilyRule, kind: pa.DataType) -> None:
    """Refuse a computed column whose type cannot hold all counts or sums."""
    if not pa.types.is_integer(kind) or rule.kind not in ("count", "number", "sum"):
        return
    child = database.table(rule.child)
    most = child.max_children if rule.largest is None else min(rule.largest, child.max_children)
    low, high = 0, most
    if rule.kind == "sum":
        column = child.schema.column(str(rule.column))
        if not isinstance(column, Number) or column.after is not None:
            return
        low, high = (most * min(column.ends[0], *column.special, 0), most * max(column.ends[1], *column.special, 0))
    info = np.iinfo(kind.to_pandas_dtype())
    if not info.min <= low <= high <= info.max:
        raise SchemaError(f"family rule: {rule}: type {kind} cannot hold values up to {high:g}; use a wider type")


class _Stages:
    """The queries of a fit, table by table."""

    def __init__(self, plan: DatabasePlan, families: Families, ledger: Ledger, rng: np.random.Generator) -> None:
        self._plan, self._families, self._ledger, self._rng = plan, families, ledger, rng
        self.models: dict[str, Model] = {}
        self.targets: dict[str, LinkTargets] = {}
        self.classes: dict[str, list[int]] = {}
        self.measured: dict[str, tuple[Measured, ...]] = {}
        self.released: dict[str, tuple[Released, ...]] = {}
        self._sigmas: dict[str, float] = {}

    def _curator(self, engine: Any, table: RelatedTable, stage: str) -> Curator:
        """Return the curator of a stage, which leaves the shares of all later stages."""
        shares = list(self._plan.shares.items())
        place = [key for key, _ in shares].index((table.name, stage))
        later = math.fsum(share for _, share in shares[place + 1 :])
        curator = Curator(engine, self._ledger, self._plan.release, shares[place][1])
        pairs = PAIRS[gap_name(table) is None]
        return curator.of_table(table.name if stage == "rows" else f"{table.name}, {pairs}", later)

    def check(self, table: RelatedTable) -> None:
        """Refuse a method that does not fit a table, before anything is charged."""
        domains = {name: codec.domain for name, codec in self._families.codecs.items()}
        domain = view_domain(self._plan.database, table.name, domains)
        coarse = coarse_domain(domain, {})
        self._plan.method.check(coarse)
        engine, share = self._families.rows(table.name), self._plan.shares[table.name, "rows"]
        check_resolution(self._curator(engine, table, "rows"), domain, {})
        part = 1 - resolution_share(domain, {}, SHARE_RESOLUTION)
        dry_run = DryRunCurator(engine, self._ledger, self._plan.release, coarse, share, None, part)
        with suppress(DryRunError):
            self._plan.method.fit(dry_run, np.random.default_rng(0), ignore_event)
        if (table.name, "siblings") in self._plan.shares:
            self._check_siblings(table, engine)

    def _check_siblings(self, table: RelatedTable, engine: Any) -> None:
        """Refuse a budget so small that the noise of tables of siblings could not be drawn."""
        codec = self._families.codecs[table.name]
        names = [name for name in codec.domain if name not in time_attributes(table, codec)]
        pairs = len(list_pairs(table, dict.fromkeys(names, 1)).pairs)
        curator = self._curator(engine, table, "siblings")
        heavier = pair_weight(self._plan.database, table.name) / row_weight(self._plan.database, table.name)
        noise = max(curator.gap_sigma(max(pairs, 1), PART_SCORES), curator.sigma(1 - PART_SCORES))
        if pairs and not heavier * noise <= MAX_NOISE_SCALE:
            raise MethodError(
                f'table "{table.name}": the budget is small: the noise of {PAIRS[gap_name(table) is None]} would be '
                f"above {MAX_NOISE_SCALE:g}. Raise epsilon, or lower max_children"
            )

    def fit_rows(self, table: RelatedTable) -> None:
        """Fit the model of a table's rows, with the attributes of their parents."""
        if table.parent is not None:
            sizes = np.asarray(self.models[table.parent].marginal((count_name(table.name),)), np.float64)
            self.classes[table.name] = group_sizes(sizes)
        engine = self._families.rows(table.name, self.classes.get(table.name))
        curator = self._curator(engine, table, "rows")
        share = self._plan.shares[table.name, "rows"]
        dry_run = partial(
            DryRunCurator, engine, self._ledger, self._plan.release, coarse_domain(engine.domain, {}), share, None
        )
        arrangement = Arrangement(share_resolution=SHARE_RESOLUTION)
        with report_stage(self._plan.listener, f"fit {table.name}"):
            model, _ = learn_model(
                self._plan.method, curator, False, dry_run, self._rng, self._plan.listener, arrangement
            )
        self.models[table.name] = model
        own = self._families.codecs[table.name].domain
        self.measured[table.name] = tuple(m for m in curator.measured if all(name in own for name in m.clique))
        self.released[table.name] = tuple(held for held in curator.released if held.fits(engine.domain))
        sigmas = [m.sigma for m in curator.measured if len(m.clique) == 2]
        self._sigmas[table.name] = float(np.median(sigmas)) if sigmas else curator.sigma(0.5)

    def collect_links(self, table: RelatedTable) -> None:
        """Collect the model's tables of parents and children, to which families are linked; makes no query."""
        database, model, name = self._plan.database, self.models[table.name], table.name
        own = own_domain(database, name, self._families.codecs[name].domain)
        parent = str(table.parent)
        above = own_domain(database, parent, self._families.codecs[parent].domain)
        kept = {each: parent_name(parent, each) for each in above if parent_name(parent, each) in model.domain}
        most = self._count_groups(table, len(own))
        groups = group_attributes(model, list(own), most)
        above_groups = group_attributes(model, list(kept.values()), MAX_LINK_GROUPS)
        heads = {each: above_groups[key] for each, key in kept.items()}
        weight = row_weight(database, name)
        sigma = self._sigmas[name] / weight
        links = [
            (each, child, _fold_pair(model, key, child, heads[each], groups[child]) / weight, sigma)
            for each, key in kept.items()
            for child in own
        ]
        if gap_name(table) is not None:
            links = sorted(links, key=lambda link: -find_dependence(link[2]))[: MAX_LINKS * len(own)]
        self.targets[name] = LinkTargets(groups, heads, (), tuple(links))

    def _count_groups(self, table: RelatedTable, attributes: int) -> int:
        """Return the number of groups of an attribute at which the noise of a table of two rows stays small."""
        share = self._plan.shares.get((table.name, "siblings"))
        if share is None:
            return MAX_LINK_GROUPS
        units = self._families.rows(self._plan.database.root)
        sigma = Curator(units, self._ledger, self._plan.release, share).sigma((1 - PART_SCORES) / attributes)
        families = max(float(self.models[self._plan.database.root].total), 1.0)
        return limit_groups(table, families, sigma)

    def fit_siblings(self, table: RelatedTable) -> None:
        """Choose and measure tables of siblings."""
        name, codec = table.name, self._families.codecs[table.name]
        targets, times = self.targets[name], time_attributes(table, codec)  # times are drawn before families are linked
        maps = {
            each: (targets.own[each], int(targets.own[each].max()) + 1) for each in codec.domain if each not in times
        }
        if not maps:  # all rows hold is their time
            return
        expected = self._expect(table, list(maps))
        curator = self._curator(self._families.pairs(name, maps), table, "siblings")
        with report_stage(self._plan.listener, f"measure {PAIRS[gap_name(table) is None]} of {name}"):
            sizes = {each: size for each, (_, size) in maps.items()}
            menu = list_pairs(table, sizes)
            siblings = measure_siblings(curator, table, expected, menu, pair_weight(self._plan.database, name))
        self.targets[name] = replace(targets, siblings=siblings)

    def _expect(self, table: RelatedTable, names: Sequence[str]) -> tuple[SampledRows, Mapping[str, Array], float]:
        """Sample families without linking them; return the children, groups of codes, and units per sampled unit."""
        models = {name: model for name, model in self.models.items() if name in self._above(table)}
        made = FittedDatabase(
            self._plan.database, {"classes": self.classes}, self._families.codecs, models, self.targets, self._ledger
        )
        n = int(min(max(made.total, 100), MAX_EXPECTED))
        groups = {name: self.targets[table.name].own[name] for name in names}
        return made.sample_path(table, n, self._rng), groups, max(made.total, 1.0) / n

    def _above(self, table: RelatedTable) -> set[str]:
        return {self._plan.database.root, *(each.name for each in self._plan.database.path(table.name))}


def limit_groups(table: RelatedTable, families: float, sigma: float) -> int:
    """Return the number of groups of an attribute at which noise of `sigma` is small in a table of two rows."""
    most = MAX_LINK_GROUPS if gap_name(table) is None else MAX_GROUPS_IN_TIME
    return int(np.clip(math.sqrt(MAX_PAIR_NOISE * families / sigma), MIN_LINK_GROUPS, most))


def group_sizes(counts: Array) -> list[int]:
    """Divide family sizes into classes: the largest are one class, named by its smallest size, if they are rare.

    A table of children and sizes is k times as noisy in rows of families of k, so rare large families are pooled.

    >>> group_sizes(np.array([5.0, 100, 140, 46, 36, 19, 8, 3, 2]))
    [0, 1, 2, 3, 4, 5, 5, 5, 5]
    """
    above = np.cumsum(counts[::-1])[::-1]
    common = np.flatnonzero(above >= MIN_SIZE_CLASS * max(float(counts[1:].sum()), 1e-9))
    last = max(int(common.max(initial=1)), 1)
    return [min(size, last) for size in range(len(counts))]


def group_attributes(model: Model, names: Sequence[str], most: int) -> dict[str, Array]:
    """Divide the codes of attributes into about `most` groups at most, by the model.

    Ordered codes are divided into groups of about equal frequency, others by their relations to the other attributes.
    """
    groups = {name: _group_codes(model, name, most) for name in names}
    for name in names:
        codes = np.arange(model.domain.size(name))
        if len(codes) > most and not model.domain.order(name).ordered:
            tables = [_fold_pair(model, name, other, codes, groups[other]) for other in names if other != name]
            counts = np.asarray(model.marginal((name,)), np.float64)
            groups[name] = merge_similar(counts, np.hstack([counts[:, None], *tables]), most)
    return groups


def _group_codes(model: Model, name: str, most: int) -> Array:
    """Divide ordered codes into groups of about equal frequency; of others, keep the most frequent."""
    counts, order = np.asarray(model.marginal((name,)), np.float64), model.domain.order(name)
    if len(counts) <= most:
        return np.arange(len(counts))
    if order.ordered:
        groups = coarse_groups(counts, order.apart, max(most - 2 - len(order.apart), 2))
        return np.asarray(np.unique(groups, return_inverse=True)[1])
    return keep_frequent(counts, most)


def _fold_pair(model: Model, first: str, second: str, rows: Array, columns: Array) -> Array:
    """Return the model's table of two attributes over groups, the first attribute first."""
    clique = make_clique((first, second))
    if isinstance(model, RecodedModel):  # without the table of all values
        table = np.asarray(model.inner.marginal(clique), np.float64)
        table = table if clique[0] == first else table.T
        return np.asarray(model.fold(first, rows).T @ table @ model.fold(second, columns))
    table = np.asarray(model.marginal(clique), np.float64)
    folded = sum_by_codes(table if clique[0] == first else table.T, rows, int(rows.max()) + 1, 0)
    return np.asarray(sum_by_codes(folded, columns, int(columns.max()) + 1, 1))


@dataclass(frozen=True)
class PairMenu:
    """Tables of two rows of a family that may be measured."""

    sizes: Mapping[str, int]
    """Number of groups of each attribute."""
    pairs: Sequence[tuple[str, str]]
    """Attribute of one row, and of its sibling or of the next row."""


def list_pairs(table: RelatedTable, sizes: Mapping[str, int]) -> PairMenu:
    """List the candidates: all tables of two siblings; of consecutive rows, those of an attribute and its next value.

    With few attributes, tables of an attribute and the next value of another are candidates too. With many, most of
    these dependences follow from the others, and the noise of further tables would cost more than they tell.
    """
    if gap_name(table) is None:
        return PairMenu(sizes, list(combinations_with_replacement(sizes, 2)))
    if len(sizes) <= MAX_CROSSED:
        return PairMenu(sizes, [(a, b) for a in sizes for b in sizes])
    return PairMenu(sizes, [(name, name) for name in sizes])


def measure_siblings(
    curator: Curator,
    table: RelatedTable,
    expected: tuple[SampledRows, Mapping[str, Array], float],
    menu: PairMenu,
    weight: int,
) -> tuple[tuple[str, str, Array, float], ...]:
    """Measure the tables of pairs of rows that the model misses most; return them in numbers of families.

    The noisy distances between the model and all tables of two siblings decide: each table has the error of not being
    measured (its distance, shrunk) and the error of its noise at each price, and the sum of errors is minimised.
    """
    rows, groups, scale = expected
    domain, pairs = pair_domain(table, menu.sizes), menu.pairs
    cliques = [make_clique((a, pair_name(table, b))) for a, b in pairs]
    consecutive = gap_name(table) is not None
    tables = _expect_pairs(rows, groups, domain, cliques, scale * weight, consecutive)
    scores = curator.gaps([Marginal(c, table) for c, table in zip(cliques, tables, strict=True)], PART_SCORES)
    gaps = shrink_distances(scores, curator.gap_sigma(len(cliques), PART_SCORES), 0.5)
    budget = curator.rho(1 - PART_SCORES)
    prices = budget / 2.0 ** np.arange(12, step=0.5)
    prices = prices[curator.sigma_of(prices) <= MAX_NOISE_SCALE]
    errors = compute_projected_error(group_cells_by_size(tables), curator.sigma_of(prices))
    bought = choose_budgets(gaps, errors, np.broadcast_to(prices, errors.shape), budget)
    chosen = np.flatnonzero(bought > 0)
    if not len(chosen):  # nothing stands out: the cheapest use is the largest distance
        chosen = np.array([int(np.argmax(scores))])
    noisy = curator.measure(
        [cliques[i] for i in chosen], 1 - PART_SCORES, [float(max(bought[i], 1e-12)) for i in chosen]
    )
    made = []
    for i, found in zip(chosen, noisy, strict=True):
        a, b = pairs[int(i)]
        counts = np.asarray(found.table, np.float64)
        counts = counts if found.clique[0] == a else counts.T
        if a == b and not consecutive:  # both orders of a pair are counted: the table is symmetric
            counts = (counts + counts.T) / 2
        counts = project_to_simplex(counts, max(float(counts.sum()), weight))
        made.append((a, b, counts / weight, found.sigma / weight))
    return tuple(made)


def _expect_pairs(
    rows: SampledRows,
    groups: Mapping[str, Array],
    domain: Domain,
    cliques: Sequence[Clique],
    scale: float,
    consecutive: bool,
) -> list[Array]:
    """Return the tables of siblings, or of consecutive rows, of sampled families, in weighted counts."""
    every = np.bincount(rows.parent, minlength=int(rows.parent.max(initial=-1)) + 1)
    kept = np.arange(len(rows.parent))
    if consecutive:
        sizes, first = every, np.flatnonzero(np.diff(rows.parent) == 0)
        second, number = first + 1, np.maximum(every - 1, 1)
    else:
        sizes = every.clip(max=MAX_SIBLINGS)
        kept = np.flatnonzero(kept - (np.cumsum(every) - every)[rows.parent] < MAX_SIBLINGS)
        first, second = sibling_pairs(np.concatenate([[0], np.cumsum(sizes)]))
        number = (sizes * np.maximum(sizes - 1, 1)).clip(min=1)
    coded = [codes[rows.records.column(name)[kept]] for name, codes in groups.items()]
    pairs = Records.of(domain, [*(c[first] for c in coded), *(c[second] for c in coded)])
    # Weights differ by the size of the family: count families of each size, and add up.
    each = (rows.weight * (every / number)[rows.parent])[kept][first]
    made = [np.zeros(domain.sizes(c)) for c in cliques]
    for size in np.unique(each):
        part = count_marginals(pairs.take(each == size), cliques)
        made = [table + size * scale * more for table, more in zip(made, part, strict=True)]
    return made
