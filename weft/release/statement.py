"""What may be said of a fit: what it promises to people in the table, what it cost, and what to beware of.

Everything comes from the model, its schema and its ledger, which are released: saying it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from weft.errors import WeftError
from weft.models.arranged import ArrangedModel
from weft.privacy import Charge, Ledger, at_most
from weft.privacy.accounting import growth
from weft.privacy.guarantee import DENIABILITY
from weft.privacy.plausible import PlausibleTest
from weft.release.modelfile import PARTLY, Fitted
from weft.words import counted

NOT_PRIVATE = "NOT PRIVATE: the noise was seeded and can be recomputed by anyone who knows the seed"
NO_PRICE = (
    "deniable records are not differentially private and have no price: no lifetime budget can hold for a table that "
    "releases some"
)
FROM_DATA = PARTLY + ": facts of the schema were read from the private table: {facts}"

VOID = "What follows would hold, were it not for the warning above."

APART = (
    "No pair of columns was measured: the columns are independent of each other, however they go together in the "
    "private table."
)

VIEWS = "Nobody planned the marginals: sets of columns were drawn at random and measured (random views)."

FAINT = "The noise is as large as the table: little was learned."

CERTAIN = 99.9
"""Per cent past which somebody is as good as certain."""

MOST_ROWS = 100_000_000
"""Rows past which nobody gets a table who did not say how many."""

MOST_FAINT_ROWS = 1_000_000
"""The same, where noise is as large as the number of rows."""

FAINTEST = 3.0
"""A number of rows, in units of its sigma, that an empty table would show about as well."""


PUBLIC = (
    "How columns are related may in part be taken from another table, {name}, which whoever made this says is public: "
    "its rows are not protected by this guarantee."
)
"""What is said where a public table was used."""
NOT_TAKEN = "Nothing was taken from {name}, which was named as a public table: columns are not related here."


def void(stamps: Iterable[str]) -> bool:
    """Whether a guarantee stands under a warning that it does not hold as it is stated."""
    return any(stamp != DENIABILITY for stamp in stamps)


def meaning(fitted: Fitted) -> str:
    """Say what the guarantee promises to a person whose data is in the table, and whether it holds."""
    return meaning_of(fitted.ledger, fitted.schema.unit)


def meaning_of(ledger: Ledger, unit: str | None) -> str:
    """Say it of a ledger, and of the column that tells whose row it is (None: every row stands for itself)."""
    said = _deniability(ledger) if ledger.deniable else _privacy(ledger, unit)
    return f"{VOID} {said}" if void(ledger.stamps) else said


def _privacy(ledger: Ledger, column: str | None) -> str:
    statement = ledger.spend_statement()
    unit = "one row" if column is None else f"everything of one {column}"
    change = (
        f"whether or not {unit} was in the private table"
        if ledger.adjacency.relation == "add-remove"
        else f"whatever {unit} of the private table said"
    )
    sure = 100 / (1 + math.exp(-statement.epsilon))
    slack = f", give or take {at_most(statement.delta, 2)}" if statement.delta > 1e-30 else ""
    return (
        f"Anything that anybody concludes from this release is about as likely {change}: its probability changes by "
        f"a factor of at most e^{at_most(statement.epsilon)}, which is below {growth(statement.epsilon)}{slack}. "
        "Somebody for whom it was a coin toss before can be "
        f"{'practically certain' if sure > CERTAIN else f'at most {at_most(sure, 3)}% sure'} of it afterwards."
    )


def _deniability(ledger: Ledger) -> str:
    """Say what deniable records promise, and what they do not.

    Whether any row passed the test is decided by the rows without noise. It is therefore not told, and every sentence
    is true either way.
    """
    test = PlausibleTest.of(next(entry.terms for entry in ledger.entries if entry.mechanism == "deniable"))
    seeds = f"at least {test.k:,}" if test.epsilon0 is None else f"about {test.k:,} (a noisy threshold)"
    alone = test.alone(ledger.budget.delta)
    said = (
        ""
        if alone is None
        else " Of one attempt to make one record, looked at alone, Theorem 1 of BSG (PVLDB 2017) says: adding a row "
        f"changes what it may release by a factor of at most e^{at_most(alone)}, give or take "
        f"{at_most(ledger.budget.delta, 2)}. That is no statement about this table, nor about a record that was tried "
        "for until it passed."
    )
    return (
        f"Each record that was grown from a seed shares the columns it kept with {seeds} private rows. Looked at "
        "alone, it could have been grown from each of them with the same probability, and nobody can tell from it "
        "which of them was its seed. Where no row passes the test, records are drawn whole from the model and have no "
        "seed; whether this happened is not told. That a row was in the table can show all the same, and "
        "many records together tell more than one: no bound holds for the table as a whole. The ledger tells what "
        f"learning the model cost; it does not cover these records.{said}"
    )


def seeds(fitted: Fitted) -> str | None:
    """Say how many records were grown from seeds, where seeds were asked for and the whole table is private."""
    if not fitted.model.fixed_records or fitted.ledger.deniable:
        return None
    grown = sum(entry.draws for entry in fitted.ledger.entries if entry.mechanism == "seeded")
    wanted = fitted.options.get("rows", 0)
    if grown == wanted:
        return f"{'The one record was' if grown == 1 else f'All {grown:,} records were'} grown from seeds."
    some = (
        f"{grown:,} of {wanted:,} records were grown from seeds, the others" if grown else "No seed was used: records"
    )
    return (
        f"{some} were drawn whole from the model. No test that the budget can pay for lets enough seeds pass for them, "
        "or they were to have every column drawn. Fewer records, a larger omega or a larger epsilon leave more room."
    )


def cautions(fitted: Fitted) -> list[str]:
    """Say what this table in particular does not tell of the private one."""
    return [*([FAINT] if faint(fitted) else []), *relations(fitted), *_engineered(fitted)]


def relations(fitted: Fitted) -> list[str]:
    """Say where relations between columns come from, if not from the private rows alone."""
    public = fitted.options.get("public")
    return [
        *([APART] if _apart(fitted) else []),
        *([(PUBLIC if fitted.model.relates_columns else NOT_TAKEN).format(name=public)] if public else []),
    ]


def _engineered(fitted: Fitted) -> list[str]:
    """Say which columns no table tells of, because of a plan; and that there was none, where chance took its place."""
    made = []
    given = fitted.options.get("marginals")
    if fitted.method == "dpsyn" and not (given.get("marginals") if isinstance(given, Mapping) else given):
        made.append(VIEWS)
    if isinstance(fitted.model, ArrangedModel):
        fills = fitted.model.fills
        even = [fill.name for fill in fills if fill.anchor is None]
        follow = [f"{fill.name} from {fill.anchor}" for fill in fills if fill.anchor is not None]
        made += [f"Made at random, whatever the private table holds: {', '.join(even)}."] if even else []
        made += [f"Filled in from another column, value by value: {', '.join(follow)}."] if follow else []
    return made


def faint(fitted: Fitted) -> bool:
    """Whether the noisy number of rows could as well be that of an empty table."""
    sigma = _sigma(fitted)
    return sigma is not None and fitted.model.total <= FAINTEST * sigma


def default_rows(fitted: Fitted) -> int:
    """Return the noisy number of rows, which is made where nobody says how many; WeftError if that would be absurd.

    With many rows a person, or next to no budget, noise alone may say 37 million where there are two thousand. Whether
    it does is asked of what is released anyway, so that the refusal tells nothing more.
    """
    rows = max(round(fitted.model.total), 0)
    if rows > MOST_ROWS or (rows > MOST_FAINT_ROWS and faint(fitted)):
        why = "noise alone may have made" if faint(fitted) else "is more than is made without being asked for"
        raise WeftError(
            f"the noisy number of rows is {rows:,}, which {why}. Say how many to make with --rows N (in Python, "
            "sample(n)): rows cost nothing more."
        )
    return rows


def _sigma(fitted: Fitted) -> float | None:
    """Return the sigma of the noise on the model's total; None where the release does not tell.

    Where rows are counted on their own, that is the total. Elsewhere tables tell of it, each with the variances of its
    cells together; of single columns, if there are such, since recipes that merge values fix the total after them.
    """
    if fitted.model.fixed_records or fitted.ledger.parts:
        return None  # as many records as were asked for; or a total of some rows, made into one of all
    variances = [
        entry.scales[0] ** 2 * (2 if entry.mechanism == "geometric" else 1)
        for entry in fitted.ledger.entries
        if entry.purpose == "total"
    ]
    alone = [table for table in fitted.measured if len(table.clique) == 1]
    variances = variances or [table.cells * table.sigma**2 for table in alone or fitted.measured]
    return 1 / math.sqrt(math.fsum(1 / variance for variance in variances)) if variances else None


def _apart(fitted: Fitted) -> bool:
    """Whether nothing in the model relates two columns: neither a table of several, nor what seeds kept."""
    if len(fitted.codec.domain) < 2 or not fitted.model.relates_columns:
        return len(fitted.codec.domain) > 1
    # Tables of a part of the rows are not listed, so there the list tells nothing.
    listed = () if fitted.model.fixed_records or fitted.ledger.parts else fitted.measured
    guessed = bool(fitted.options.get("public"))  # pairs that nobody measured may be those of a public table
    return bool(listed) and not guessed and all(len(table.clique) < 2 for table in listed)


def costs(ledger: Ledger) -> dict[str, float | None]:
    """Return the shares of the budget that model and seeds cost, or parts of the rows, and the total; None: no price.

    Slack is what the delta that pays for it would have bought. A row is in one part only, so it pays for the dearest.
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
    return entry.mechanism == "seeded" or entry.purpose == "seeds"


def priced(share: float | None) -> str:
    """Say what a share of the budget is, or that there is none."""
    return "unpriced" if share is None else f"{share:.1%}"


def lifetime(said: Mapping[str, Any] | None) -> str:
    """Say what all runs on the table may cost together, where its curator keeps a lifetime budget."""
    if said is None:
        return "No lifetime budget is kept for the table: what other releases of it cost is not counted here."
    table = f' of "{said["table"]}"' if said["table"] else ""
    bound = f"({at_most(said['epsilon'])}, {at_most(said['delta'], 3)})-differential privacy"
    return (
        f"This run drew from the lifetime budget{table}: all runs together, however they followed from one another, "
        f"keep to {bound} for as long as every one draws from it."
    )


def together(ledgers: Iterable[Ledger]) -> str | None:
    """Say what several runs cost a table that all of them asked; None where fewer than two asked anything."""
    asked = [ledger for ledger in ledgers if ledger.entries]
    if len(asked) < 2:
        return None
    runs = counted(len(asked), "run")
    if any(ledger.deniable for ledger in asked):
        return f"{runs}: no epsilon holds for all of them, since some released records that are deniable and no more"
    if len({ledger.adjacency for ledger in asked}) > 1:
        return f"{runs}: their neighbours differ, so that no epsilon can be stated for all of them"
    # Basic composition: it holds whatever the accounting of each. Of what each was allowed, not of what it spent: that
    # may follow from noisy answers, and no guarantee is stated for it (`Ledger.spend_statement`).
    statements = [ledger.spend_statement() for ledger in asked]
    epsilon, delta = (math.fsum(getattr(each, name) for each in statements) for name in ("epsilon", "delta"))
    said = f"{runs}: epsilon {at_most(epsilon)} at delta {at_most(delta, 3)} together, if they asked the same table"
    warned = any(void(ledger.stamps) for ledger in asked)
    return f"{said}, were it not for the warnings on some" if warned else said
