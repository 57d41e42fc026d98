"""Compute the figures of a report: against the real rows (PRIVATE), or against released measurements only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft import __version__
from weft.encoding import Codec
from weft.errors import WeftError
from weft.evaluation.metrics import associations, coverage, range_queries, svm_misclassification
from weft.evaluation.metrics.aligned_tables import validate_shared_domain
from weft.evaluation.report import cautions
from weft.evaluation.report import report_texts as words
from weft.evaluation.report.report_codes import Floats, Grouping, View, group_codes, make_bars, shares_of
from weft.evaluation.report.report_figures import (
    ColumnFigures,
    Guarantee,
    NumberFigures,
    PairFigures,
    PairGrid,
    PeopleFigures,
    Prediction,
    Questions,
    Report,
    RuleFigures,
)
from weft.evaluation.report.report_pairs import (
    MAX_GRIDS,
    PairMatrices,
    compare_pairs,
    compute_model_shares,
    count_pair_shares,
    make_pair_grid,
    marginal_figures,
    of_model,
    of_records,
    select_columns,
    select_worst_pairs,
)
from weft.evaluation.report.report_values import number_figures, people_figures, rule_figures
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Measured
from weft.marginals.records import Records
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.schema.kinds import Id
from weft.schema.kinds.attributes import Single, plain_coder
from weft.schema.kinds.kind import CheckingCoder, Label
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import explain_guarantee
from weft.synthesis.verdicts import (
    by_column,
    collect_findings,
    compute_combined_sigma,
    compute_expected_tvd,
    find_losses,
)
from weft.values.storage import decode_dictionary

GRID_SIZE = 14
"""Maximum number of values, and of bins, of an attribute in a heat map."""
MAX_TARGETS = 5
TRAINING_ROWS = 2000
TARGET_VALUES = 8
FEATURE_VALUES = 64
"""Attributes with more values are useless with this number of training rows, and are excluded from the features."""
_CERTAIN = 3.0  # counts below this multiple of sigma are indistinguishable from noise

Index = Mapping[str, Sequence[Measured]]

SEED = 0
"""Seed of the range queries and training rows, so that the same tables give the same report."""


def measure_private(
    real: Records,
    synth: Records,
    codec: Codec,
    fitted: Fitted | None = None,
    *,
    tables: tuple[pa.Table, pa.Table] | None = None,
    listener: Listener = ignore_event,
) -> Report:
    """Compare a synthetic table with the real one. PRIVATE: the figures are exact.

    Both tables are encoded by `codec`. With `fitted`, the report also states the guarantee and how much of each
    distance the privacy noise explains; the caller guarantees that this model generated the rows (`private_report`
    checks it). With `tables` (the same rows as values), also compare numbers, dates, rules and people.
    """
    shared = validate_shared_domain(real, synth)
    if fitted is not None and fitted.codec.domain != shared:
        raise WeftError("the model was fitted with another schema than that of the tables. Use the model's schema")
    measured = () if fitted is None else fitted.measured
    view, rows, made = View.of(codec, synth), real, synth
    real, synth, domain = view.records(rows), view.records(made), view.domain
    named, index = {name: view.labels(name) for name in domain}, by_column(_merge_measured_codes(measured, domain))
    with report_stage(listener, "compare columns"):
        ones = [count_marginals(table, [(name,) for name in domain]) for table in (real, synth)]
        columns = tuple(
            _make_column_figures(codec, name, named[name], a, b, index)
            for name, a, b in zip(domain, *ones, strict=True)
        )
        gone = {} if tables is None else _count_lost_values(codec.schema, *tables)
        columns = _count_as_wrong(columns, {} if tables is None else _find_outside_shares(codec, *tables), gone)
        rare = coverage(real, synth)
    with report_stage(listener, "compare pairs"):
        found = compare_pairs(real, synth)
        pairs = _make_pair_figures(domain, found, _list_measured_pairs(measured))
        grids = _make_worst_grids(real, synth, pairs, named, ones)
    with report_stage(listener, "compare values"):
        numbers, rules, people = _measure_values(codec, *(tables or (None, None))[::-1])
        seen = cautions.of_values(numbers, rules, people)
    with report_stage(listener, "ask questions"):
        questions = _run_range_queries(real, synth)
    with report_stage(listener, "predict"):
        predictions, note = _measure_predictions(real, synth, ones[0], found.real)
    told = (*seen, *cautions.against_real(columns, pairs))
    lost = find_losses(codec.schema, codec) if fitted is None else collect_findings(fitted, noise=False)
    seen_wrong = {column.name for column in columns if column.outside}  # exact, instead of the noisy shares
    lost = {name: found for name, found in lost.items() if name not in seen_wrong}
    verdicts = cautions.judge_report(codec, lost, told)
    with report_stage(listener, "weigh noise"):
        weighed = () if fitted is None else marginal_figures(fitted, measured, made, lambda c: of_records(c, rows))
    return Report(
        edition="private",
        reference="private table",
        rows=len(synth),
        reference_rows=len(real),
        headlines=words.against_real(columns, pairs, questions, (rare, gone), predictions),
        verdicts=verdicts,
        cautions=cautions.join_cautions(verdicts, told),
        columns=columns,
        numbers=numbers,
        rules=rules,
        people=people,
        pairs=cautions.judge_pairs(codec, pairs, verdicts, True),
        grids=grids,
        questions=questions,
        predictions=predictions,
        prediction_note=note,
        marginals=weighed,
        **_describe_table(codec, fitted),
    )


def _make_pair_figures(domain: Domain, found: PairMatrices, together: set[Clique]) -> tuple[PairFigures, ...]:
    return tuple(
        PairFigures(
            (domain.names[i], domain.names[j]),
            float(found.distance[i, j]),
            float(found.real[i, j]),
            float(found.synth[i, j]),
            make_clique((domain.names[i], domain.names[j])) in together,
            None if math.isnan(found.rests_on[i, j]) else float(found.rests_on[i, j]),
        )
        for i, j in combinations(range(len(domain)), 2)
    )


def _compare_with_model(
    fitted: Fitted, view: View, synth: Records, groups: dict[str, Grouping], index: Index
) -> tuple[list[PairFigures], tuple[PairGrid, ...]]:
    """Compare every measured pair with the model, and return heat maps of those with the strongest association."""
    domain, matrix, together = view.domain, associations(synth), _list_measured_pairs(fitted.measured)
    pairs, found = [], {}
    for i, j in combinations(range(len(domain)), 2):
        names = (domain.names[i], domain.names[j])
        asked = make_clique(names) in together
        distance, noise = None, None
        if asked:
            reference, rows = compute_model_shares(fitted, view, names, groups), count_pair_shares(synth, names, groups)
            found[names] = reference, rows
            distance = float(np.abs(reference - rows).sum()) / 2
            if (sigma := compute_combined_sigma(names, index)) is not None:  # per code: in a group, noise adds up
                wider = math.sqrt(math.prod(domain.sizes(names)) / reference.size)
                noise = compute_expected_tvd(reference * fitted.model.total, sigma * wider)
        pairs.append(PairFigures(names, distance, None, float(matrix[i, j]), asked, noise=noise))
    strongest = sorted((p for p in pairs if p.measured), key=lambda p: -p.association_synth)[:MAX_GRIDS]
    return pairs, tuple(make_pair_grid(pair.columns, groups, *found[pair.columns]) for pair in strongest)


def _make_worst_grids(
    real: Records,
    synth: Records,
    pairs: Sequence[PairFigures],
    named: Mapping[str, Sequence[Label]],
    ones: Sequence[Sequence[Array]],
) -> tuple[PairGrid, ...]:
    weights = (a / len(real) + b / len(synth) for a, b in zip(*ones, strict=True))
    groups = {n: group_codes(named[n], w, GRID_SIZE, GRID_SIZE) for n, w in zip(real.domain, weights, strict=True)}
    return tuple(
        make_pair_grid(
            pair.columns, groups, *(count_pair_shares(table, pair.columns, groups) for table in (real, synth))
        )
        for pair in select_worst_pairs(pairs)
    )


def _describe_table(codec: Codec, fitted: Fitted | None) -> dict[str, Any]:
    """Return the report's facts about the model, the whole table and its columns without figures."""
    columns = codec.schema.columns
    return {
        "table_columns": len(columns),
        "made_anew": tuple(column.name for column in columns if isinstance(column, Id)),
        "derived": tuple(c.name for c in columns if not (c.modelled or isinstance(c, Id))),
        "weft": __version__,
        "stamps": () if fitted is None else fitted.ledger.stamps,
        "guarantee": None if fitted is None else _make_guarantee(fitted),
        "ledger": None if fitted is None else fitted.ledger.to_dict(),
    }


def _run_range_queries(real: Records, synth: Records) -> Questions:
    asked = range_queries(real, synth, seed=SEED)
    return Questions(
        len(asked.queries),
        asked.error,
        float(asked.errors.max()),
        tuple(asked.real.tolist()),
        tuple(asked.synth.tolist()),
    )


def measure_releasable(
    fitted: Fitted, synth: Records, *, table: pa.Table | None = None, listener: Listener = ignore_event
) -> Report:
    """Compare a synthetic table with the model that generated it, and compute the expected noise.

    With `table` (the same rows as values), also describe numbers, dates, rules and people.

    Privacy: post-processing, if `synth` is a sample of the model. The caller guarantees this, since encoded rows cannot
    prove it and exact counts of private rows would be published; `releasable_report` checks it.
    """
    model, codec = fitted.model, fitted.codec
    validate_shared_domain(synth)
    if synth.domain != codec.domain:
        raise WeftError("the columns of the table differ from those of the model. Pass rows that the model generated")
    measured = fitted.measured
    view, fine = View.of(codec, synth), synth
    synth, domain = view.records(fine), view.domain
    named, index = {name: view.labels(name) for name in domain}, by_column(_merge_measured_codes(measured, domain))
    with report_stage(listener, "compare columns"):
        expected = [view.fold(name, np.asarray(model.marginal([name]), np.float64)) for name in domain]
        made = count_marginals(synth, [(name,) for name in domain])
        columns = tuple(
            _make_column_figures(codec, name, named[name], a, b, index)
            for name, a, b in zip(domain, expected, made, strict=True)
        )
        drowned = sum(_count_drowned_codes(name, table, index) for name, table in zip(domain, expected, strict=True))
    with report_stage(listener, "compare pairs"):
        groups = {
            n: group_codes(named[n], b / len(synth), GRID_SIZE, GRID_SIZE) for n, b in zip(domain, made, strict=True)
        }
        pairs, grids = _compare_with_model(fitted, view, synth, groups, index)
    with report_stage(listener, "describe values"):
        numbers, rules, people = _measure_values(codec, table)
        seen = cautions.of_values(numbers, rules, people)
        marginals = marginal_figures(fitted, measured, fine, of_model)
    told = (*seen, *cautions.against_model(columns, pairs))
    verdicts = cautions.judge_report(codec, collect_findings(fitted, noise=True), told)
    return Report(
        edition="releasable",
        reference="noisy model",
        rows=len(synth),
        reference_rows=None,
        headlines=words.against_model(columns, pairs, marginals, drowned, sum(domain.shape)),
        verdicts=verdicts,
        cautions=cautions.join_cautions(verdicts, told),
        columns=columns,
        numbers=numbers,
        rules=rules,
        people=people,
        pairs=cautions.judge_pairs(codec, pairs, verdicts, False),
        grids=grids,
        questions=None,
        predictions=(),
        prediction_note="",
        marginals=marginals,
        **_describe_table(codec, fitted),
    )


def _measure_values(
    codec: Codec, synth: pa.Table | None, real: pa.Table | None = None
) -> tuple[tuple[NumberFigures, ...], tuple[RuleFigures, ...], PeopleFigures | None]:
    """Compute the figures of values: numbers, rules and people. PRIVATE if `real` is given."""
    if synth is None:
        return (), (), None
    schema = codec.schema
    return number_figures(schema, synth, real), rule_figures(codec, synth, real), people_figures(schema, synth, real)


def _merge_measured_codes(measured: Sequence[Measured], domain: Domain) -> list[Measured]:
    """Return the measured marginals in the report's codes: where codes are merged, their noise adds up."""
    made = []
    for table in measured:
        sizes = [min(a, b) for a, b in zip(table.shape, domain.sizes(table.clique), strict=True)]
        wider = math.sqrt(math.prod(a / b for a, b in zip(table.shape, sizes, strict=True)))
        made.append(replace(table, shape=tuple(sizes), sigma=table.sigma * wider))
    return made


def _make_guarantee(fitted: Fitted) -> Guarantee:
    ledger = fitted.ledger
    statement = ledger.spend_statement()
    return Guarantee(
        None if ledger.deniable else statement.epsilon,
        None if ledger.deniable else statement.delta,
        str(ledger.adjacency),
        fitted.method,
        min(ledger.used, 1.0),
        explain_guarantee(fitted),
    )


def _make_column_figures(
    codec: Codec, name: str, named: Sequence[Label], reference: Array, synth: Array, index: Index
) -> ColumnFigures:
    a, b = shares_of(reference), shares_of(synth)
    sigma = compute_combined_sigma((name,), index)
    return ColumnFigures(
        name,
        codec.schema.column(codec.part(name).columns[0]).kind,
        len(named),
        float(np.abs(a - b).sum()) / 2,
        None if sigma is None else compute_expected_tvd(reference, sigma),
        make_bars(named, a, b, None if sigma is None else sigma / max(float(reference.sum()), 1.0)),
    )


def _find_outside_shares(codec: Codec, real: pa.Table, synth: pa.Table) -> dict[str, float]:
    """Return, by column, the share of real rows that the same code hides although their value is another. PRIVATE.

    These are values out of range, and values that are not listed and meet synthetic rows with the word for them.
    """
    arrays, found = codec.arrays(real), dict[str, float]()
    for part in codec.parts:
        coder: Any = plain_coder(part.coder) if isinstance(part, Single) else None
        name = part.columns[0]
        if isinstance(coder, CheckingCoder) and len(real) and len(synth):
            found[name] = float(np.mean(~coder.fits(arrays[name])))
            other = getattr(codec.schema.column(name), "other", None)
            if other is not None:
                same = pc.sum(pc.equal(synth.column(name).cast(pa.string()), str(other))).as_py() or 0
                found[name] = min(found[name], same / len(synth))
    return found


def _count_as_wrong(
    columns: Sequence[ColumnFigures], outside: Mapping[str, float], gone: Mapping[str, tuple[int, int]]
) -> tuple[ColumnFigures, ...]:
    """Add the rows with values outside the schema to the distances: the synthetic table cannot contain these values."""
    made = []
    for column in columns:
        share = outside.get(column.name, 0.0)
        wrong = min(column.distance + share, 1.0)
        made.append(replace(column, distance=wrong, outside=round(share, 4), gone=gone.get(column.name, (0, 0))[0]))
    return tuple(made)


def _count_lost_values(schema: Schema, real: pa.Table, synth: pa.Table) -> dict[str, tuple[int, int]]:
    """Count, by category column, the private values that the synthetic table lacks, and the rare ones of them. PRIVATE.

    Rare values are in at most 1% of the rows.
    """
    found = {}
    for column in schema.modelled:
        if column.kind == "category" and column.name in real.column_names and column.name in synth.column_names:
            held, made = (
                decode_dictionary(t.column(column.name).combine_chunks()).cast(pa.string()) for t in (real, synth)
            )
            counts = pc.value_counts(held.drop_null())
            lost = pc.invert(pc.is_in(counts.field("values"), value_set=pc.unique(made)))
            rare = pc.less_equal(counts.field("counts"), len(real) / 100)
            found[column.name] = pc.sum(lost).as_py() or 0, pc.sum(pc.and_(lost, rare)).as_py() or 0
    return found


def _count_drowned_codes(name: str, table: Floats, index: Index) -> int:
    sigma = compute_combined_sigma((name,), index)
    return 0 if sigma is None else int(np.count_nonzero(table < _CERTAIN * sigma))


def _list_measured_pairs(measured: Sequence[Measured]) -> set[Clique]:
    return {pair for table in measured for pair in combinations(table.clique, 2)}


def _measure_predictions(
    real: Records, synth: Records, ones: Sequence[Array], relations: Floats
) -> tuple[tuple[Prediction, ...], str]:
    """Predict the most predictable attributes; if none can be predicted, return the reason."""
    domain = real.domain
    fit = [
        i
        for i, table in enumerate(ones)
        if 2 <= np.count_nonzero(table) <= TARGET_VALUES
        and len(table) <= FEATURE_VALUES
        and table.max() <= 0.95 * table.sum()
    ]
    pull = {i: float(np.sort(np.delete(relations[i], i))[-3:].sum()) for i in fit} if len(domain) > 1 else {}
    targets = sorted(sorted(pull, key=lambda i: -pull[i])[:MAX_TARGETS])
    if not targets:
        return (), "No attribute with few values, none of them in nearly all rows, can be predicted from others."
    made = []
    told = [name for name in domain if domain.size(name) <= FEATURE_VALUES]
    learned, tested = (select_columns(table, told) for table in (synth, real))
    try:
        for i in targets:
            rates = svm_misclassification(tested, learned, target=domain.names[i], seed=SEED, cap=TRAINING_ROWS)
            made.append(Prediction(domain.names[i], 1 - rates.synth, 1 - rates.real, 1 - rates.majority))
    except WeftError as error:
        return (), f"Predictions were not computed: {error}."
    return tuple(made), ""
