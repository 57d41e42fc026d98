"""Statements about a fitted model: its privacy guarantee, its cost, and its limitations.

All of them are computed from the model, its schema and its ledger, which are released: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from weft.display import format_count
from weft.errors import WeftError
from weft.models.arranged import ArrangedModel
from weft.privacy import Charge, CountNoise, Ledger, at_most
from weft.privacy.conversions import format_odds_growth
from weft.privacy.deniability import PlausibleTest
from weft.privacy.ledger import DENIABILITY
from weft.synthesis.fitted import Fitted
from weft.synthesis.model_file import PARTLY

NOT_PRIVATE = "NOT PRIVATE: the noise was seeded and can be recomputed by anyone who knows the seed"
NO_PRICE = (
    "deniable records are not differentially private and have no price: a table from which they are released cannot "
    "keep a lifetime budget"
)
FROM_DATA = PARTLY + ": facts of the schema were read from the private table: {facts}"

VOID = "Because of the warning above, the following does not hold as stated."

APART = (
    "No attribute pair was measured: the synthetic columns are independent of each other, even where the private "
    "columns are related."
)

VIEWS = "No marginals were specified: random sets of attributes were measured (random views)."

FAINT = "The noise is as large as the number of rows: the model contains little information about the table."

CERTAIN = 99.9  # per cent of correct decisions above which an observer decides correctly in practically all cases
MAX_DEFAULT_ROWS = 100_000_000  # maximum default number of rows; more have to be requested explicitly
MAX_DEFAULT_FAINT_ROWS = 1_000_000  # the same, where the noise is as large as the number of rows
FAINTEST = 3.0  # a noisy number of rows below this many standard deviations is consistent with an empty table
PUBLIC = (
    "Relations between columns may be taken in part from another table, {name}, which was declared public: its rows "
    "are not protected by this guarantee."
)
NOT_TAKEN = "Nothing was taken from the public table {name}: this model does not relate columns."


def is_void(stamps: Iterable[str]) -> bool:
    """Whether a stamp warns that the guarantee does not hold as stated."""
    return any(stamp != DENIABILITY for stamp in stamps)


def explain_guarantee(fitted: Fitted) -> str:
    """Explain the guarantee to a person whose data is in the table, and whether it holds."""
    return explain_ledger_guarantee(fitted.ledger, fitted.schema.unit)


def explain_ledger_guarantee(ledger: Ledger, unit: str | None) -> str:
    """Explain the guarantee of a ledger; `unit` is the column that identifies the person (None: the unit is a row)."""
    said = _explain_deniability(ledger) if ledger.deniable else _explain_privacy(ledger, unit)
    return f"{VOID} {said}" if is_void(ledger.stamps) else said


def _explain_privacy(ledger: Ledger, column: str | None) -> str:
    statement = ledger.spend_statement()
    unit, verb = ("a given row", "has") if column is None else (f"the rows of a given {column}", "have")
    change = (
        f"whether or not the private table contains {unit}"
        if ledger.adjacency.relation == "add-remove"
        else f"whatever values {unit} of the private table {verb}"
    )
    right = 100 * (1 + statement.delta * math.exp(-statement.epsilon)) / (1 + math.exp(-statement.epsilon))
    slack = f", plus at most {at_most(statement.delta, 2)} (delta)" if statement.delta > 1e-30 else ""
    return (
        f"Any conclusion drawn from this release is about equally likely {change}: its probability changes by "
        f"a factor of at most e^{at_most(statement.epsilon)}, which is below "
        f"{format_odds_growth(statement.epsilon)}{slack}. "
        "An observer who considered two such cases equally likely before the release can decide between them correctly "
        f"in {'practically all' if right > CERTAIN else f'at most {at_most(right, 3)}% of'} cases afterwards."
    )


def _explain_deniability(ledger: Ledger) -> str:
    """Explain what plausible deniability guarantees, and what it does not.

    Privacy: whether any row passed the test depends on the rows without noise. It is therefore not disclosed, and
    every sentence is true in both cases.
    """
    test = PlausibleTest.of(next(entry.terms for entry in ledger.entries if not entry.definition.is_private))
    seeds = f"at least {test.k:,}" if test.epsilon0 is None else f"about {test.k:,} (a noisy threshold)"
    alone = test.alone(ledger.budget.delta)
    said = (
        ""
        if alone is None
        else " For a single attempt to generate one record, Theorem 1 of BSG (PVLDB 2017) states: adding a row changes "
        f"the probability of any output by a factor of at most e^{at_most(alone)}, plus at most "
        f"{at_most(ledger.budget.delta, 2)} (delta). This bounds neither the privacy loss of the whole table nor that "
        "of a record for which attempts were repeated until one passed."
    )
    return (
        f"Each record that was generated from a seed shares its retained columns with {seeds} private rows. Considered "
        "alone, it could have been generated from each of them with the same probability, so it does not reveal which "
        "of them was its seed. Where no row passes the test, records are drawn entirely from the model and have no "
        "seed; whether this happened is not disclosed. The records may still reveal that a row was in the table, and "
        "many records together reveal more than one: no bound holds for the table as a whole. The ledger states the "
        f"privacy cost of the model; it does not cover these records.{said}"
    )


def describe_seeds(fitted: Fitted) -> str | None:
    """State how many records were generated from seeds; None without seeds, or without differential privacy."""
    if not fitted.model.fixed_records or fitted.ledger.deniable:
        return None
    grown = sum(entry.draws for entry in fitted.ledger.entries if entry.definition.grows_private_records)
    wanted = fitted.options.get("rows", 0)
    if grown == wanted:
        some = "The only record was" if grown == 1 else f"All {grown:,} records were"
        return f"{some} generated from seeds."
    some = (
        f"{grown:,} of {wanted:,} records were generated from seeds, the others"
        if grown
        else "No seed was used: records"
    )
    return (
        f"{some} were drawn entirely from the model. No test within the budget lets enough seeds pass, or the options "
        "require every column to be drawn. Fewer records, a larger omega or a larger epsilon allow more seeds."
    )


def list_cautions(fitted: Fitted) -> list[str]:
    """List the limitations of this model as a whole; those of its columns are verdicts (`weft.synthesis.verdicts`)."""
    return [
        *([FAINT] if is_row_count_faint(fitted) else []),
        *describe_relation_sources(fitted),
        *_describe_plan_gaps(fitted),
    ]


def describe_relation_sources(fitted: Fitted) -> list[str]:
    """State where relations between columns come from, if not from the private rows alone."""
    public = fitted.options.get("public")
    return [
        *([APART] if _relates_no_columns(fitted) else []),
        *([(PUBLIC if fitted.model.relates_columns else NOT_TAKEN).format(name=public)] if public else []),
    ]


def _describe_plan_gaps(fitted: Fitted) -> list[str]:
    """Name the columns that a plan of marginals leaves unmeasured; or state that the marginals were random."""
    made = []
    given = fitted.options.get("marginals")
    if fitted.method == "dpsyn" and not (given.get("marginals") if isinstance(given, Mapping) else given):
        made.append(VIEWS)
    if isinstance(fitted.model, ArrangedModel):
        fills = fitted.model.fills
        even = [fill.name for fill in fills if fill.anchor is None]
        follow = [f"{fill.name} from {fill.anchor}" for fill in fills if fill.anchor is not None]
        made += [f"Generated at random, independently of the private table: {', '.join(even)}."] if even else []
        made += [f"Derived from another column, value by value: {', '.join(follow)}."] if follow else []
    return made


def is_row_count_faint(fitted: Fitted) -> bool:
    """Whether the noisy number of rows is consistent with an empty table."""
    sigma = _get_total_sigma(fitted)
    return sigma is not None and fitted.model.total <= FAINTEST * sigma


def default_rows(fitted: Fitted) -> int:
    """Return the default number of synthetic rows, which is the noisy number of rows.

    Raises WeftError if it is too large: with many rows per person, or a very small budget, noise alone may yield 37
    million where there are two thousand.

    Privacy: the check uses released values only, so the refusal reveals nothing more.
    """
    beyond = 1.0 if fitted.people is None else fitted.people.ratio_of_all_rows(fitted.ledger.adjacency.rows_per_unit)
    rows = int(min(max(round(fitted.model.total * beyond), 0), fitted.codec.count_keys()))
    if rows > MAX_DEFAULT_ROWS or (rows > MAX_DEFAULT_FAINT_ROWS and is_row_count_faint(fitted)):
        why = (
            "may be due to noise alone"
            if is_row_count_faint(fitted)
            else f"is above the default limit of {MAX_DEFAULT_ROWS:,}"
        )
        raise WeftError(
            f"the noisy number of rows is {rows:,}, which {why}. State the number of synthetic rows with --rows N (in "
            "Python, sample(n)): sampling has no privacy cost."
        )
    return rows


def _get_total_sigma(fitted: Fitted) -> float | None:
    """Return the standard deviation of the noise on the model's total; None where it is not released.

    It is that of the measured number of rows if there is one. Otherwise it is pooled over marginals, each with the sum
    of its cells' variances: one-way marginals if there are any, since methods that merge values fix the total by them.
    """
    if fitted.model.fixed_records or fitted.ledger.parts:
        return None  # the number of records was requested, or the total is extrapolated from a part of the rows
    variances = [
        noise.variance(entry.scales[0])
        for entry in fitted.ledger.entries
        if entry.purpose == "total" and isinstance(noise := entry.definition, CountNoise)
    ]
    alone = [table for table in fitted.measured if len(table.clique) == 1]
    variances = variances or [table.cells * table.sigma**2 for table in alone or fitted.measured]
    return 1 / math.sqrt(math.fsum(1 / variance for variance in variances)) if variances else None


def _relates_no_columns(fitted: Fitted) -> bool:
    """Whether the model relates no two columns: neither by a marginal over several, nor by seeds."""
    if len(fitted.codec.domain) < 2 or not fitted.model.relates_columns:
        return len(fitted.codec.domain) > 1
    # Marginals of a part of the rows are not listed.
    listed = () if fitted.model.fixed_records or fitted.ledger.parts else fitted.measured
    guessed = bool(fitted.options.get("public"))  # unmeasured pairs may follow a public table
    return bool(listed) and not guessed and all(len(table.clique) < 2 for table in listed)


def compute_cost_shares(ledger: Ledger) -> dict[str, float | None]:
    """Return shares of the budget: of model and seeds, or of each part of the rows, and in total; None: no price.

    Slack is what the delta spent on it would have bought. A row is in one part only, so the largest share counts.
    """
    whole: float = ledger.to_dict()["capacity"]

    def share(entries: Iterable[Charge]) -> float:
        return math.fsum(entry.cost for entry in entries) / whole

    if ledger.parts:
        shares: dict[str, float | None] = {
            f"rows for {part}": share(entry for entry in ledger.entries if entry.part in ("", part))
            for part in ledger.parts
        }
        if ledger.deniable:
            return shares | {"rows for seeds": None, "total": None}
        return shares | {"the most for a row": min(ledger.used, 1.0)}
    model = share(entry for entry in ledger.entries if not _for_seeds(entry))
    if ledger.deniable:
        return {"model": model, "seeds": None, "total": None}
    if not any(map(_for_seeds, ledger.entries)):
        return {"total": min(ledger.used, 1.0)}
    grown = share(filter(_for_seeds, ledger.entries))
    slack = max(0.0, ledger.used - model - grown)
    return {"model": model, "seeds": grown, "slack": slack, "total": min(ledger.used, 1.0)}


def _for_seeds(entry: Charge) -> bool:
    return entry.definition.grows_private_records or entry.purpose == "seeds"


def format_budget_share(share: float | None) -> str:
    """Format a share of the budget."""
    return "unpriced" if share is None else f"{share:.1%}"


def describe_lifetime(said: Mapping[str, Any] | None) -> str:
    """State the joint guarantee of all runs on the table, if a lifetime budget is kept."""
    if said is None:
        return "No lifetime budget is kept for this table: the privacy cost of other releases is not included."
    table = f' of "{said["table"]}"' if said["table"] else ""
    bound = f"({at_most(said['epsilon'])}, {at_most(said['delta'], 3)})-differential privacy"
    return (
        f"This run was charged to the lifetime budget{table}: all runs together, adaptively chosen or not, satisfy "
        f"{bound} as long as every run is charged to it."
    )


def describe_joint_cost(ledgers: Iterable[Ledger]) -> str | None:
    """State the total privacy cost of several runs on one table; None if fewer than two have charges."""
    asked = [ledger for ledger in ledgers if ledger.entries]
    if len(asked) < 2:
        return None
    runs = format_count(len(asked), "run")
    if any(ledger.deniable for ledger in asked):
        return f"{runs}: no epsilon holds for all of them, since some released records that are only deniable"
    # Contribution bounds may differ: each charge has the sensitivity of its own, for the same unit.
    relations = {(each.relation, each.row, each.rows_per_unit > 1) for each in (ledger.adjacency for ledger in asked)}
    if len(relations) > 1:
        return f"{runs}: their neighbouring relations differ, so no epsilon can be stated for all of them"
    # Basic composition holds for every accounting. It is applied to the budgets, not to what was spent: that may depend
    # on noisy answers, and no guarantee is stated for it (`Ledger.spend_statement`).
    statements = [ledger.spend_statement() for ledger in asked]
    epsilon, delta = (math.fsum(getattr(each, name) for each in statements) for name in ("epsilon", "delta"))
    said = (
        f"{runs}: epsilon {at_most(epsilon)} at delta {at_most(delta, 3)} in total, if all of them used the same table"
    )
    warned = any(is_void(ledger.stamps) for ledger in asked)
    return f"{said}; warnings on some of them void this total" if warned else said
