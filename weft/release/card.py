"""The card of a release: what a stranger needs to know of a table, as JSON and as a page.

Nothing here has seen a private row: everything comes from the fitted model, its schema and its ledger.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from weft import __version__
from weft.models.arranged import arranged_of
from weft.models.recoded import RecodedModel
from weft.privacy import at_most
from weft.release.card_facts import merging, provenance
from weft.release.markup import bullets, code, text, yaml
from weft.release.modelfile import Fitted
from weft.release.statement import NOT_PRIVATE, VOID, cautions, costs, lifetime, meaning, priced, seeds, void
from weft.words import counted

CARD = 2
"""Version of the card's JSON."""


LIMITS = (
    "Only what the ledger lists was asked of the private rows. Relations between columns that no question covers are "
    "not those of the private rows, except by chance.",
    "Counts carry noise. Rare values and small groups may be lost, or appear where there were none.",
    "Numbers and dates were counted finely alone, and together in groups of values side by side: how they lie inside a "
    "group is kept over all rows, not within the rows that another column picks out. Where the schema gives bins, and "
    "inside the finest steps, they are spread evenly.",
    "Rare values that were merged keep about their own numbers, but the company of all that were merged with them.",
    "Identifiers are made up and point to nobody. Relations between rows, and their order, are not kept.",
    "Statistical tests that take these rows for real ones overstate their certainty: the noise is not in their model.",
)
"""What no release of this kind preserves."""

NOBODY = "No row of it belongs to a person."

SEEDED = (
    "A record that was grown from a seed begins with columns of a private row that shares them with many others, by a "
    "noisy test that the guarantee below covers. Everything else was drawn from a model."
)

DENIABLE = (
    "A record that was grown from a seed begins with columns of a private row, behind a test that other rows could as "
    "well have been that seed. Its other columns were drawn from a model, and so were whole records where no row "
    "passes the test. This is plausible deniability of each record and NOT differential privacy."
)


FORMULAS = {
    "keep": "Cells may begin with =, +, - or @, as the values of the private table do: a spreadsheet may take them for "
    "formulas. Import the file as text, or ask for --formulas escape.",
    "escape": "Text cells that begin with =, +, -, @, a tab or a carriage return have an apostrophe before them, so "
    "that no spreadsheet takes them for formulas: they are not the values of the private table.",
}
"""What was done about cells of a CSV file that spreadsheets would run."""


CONDITIONAL = (
    "This is a conditional sample: every row was drawn to meet {conditions}. It is not the whole table: shares in it "
    "are shares among such rows, and its number of rows does not tell how many there are."
)


def card_json(
    fitted: Fitted,
    rows: int,
    *,
    name: str,
    sha256: str | None = None,
    formulas: str | None = None,
    conditions: Sequence[str] = (),
) -> dict[str, Any]:
    """Return everything a stranger needs to know of a release, as plain JSON values.

    `formulas` says what was done about cells that look like formulas: "keep" or "escape" for CSV, None for other files.
    `conditions` are those that every row was drawn to meet.
    """
    ledger, schema = fitted.ledger, fitted.schema
    statement = ledger.spend_statement()
    return {
        "card": CARD,
        "weft": __version__,
        "table": {
            "file": name,
            "rows": rows,
            "sha256": sha256,
            "formulas": formulas,
            "conditions": list(conditions),
        },
        "stamps": list(statement.stamps),
        "privacy": {
            "guarantee": "plausible deniability, not differential privacy"
            if ledger.deniable
            else "differential privacy",
            "epsilon": None if ledger.deniable else statement.epsilon,
            "delta": None if ledger.deniable else statement.delta,
            "neighbours": str(ledger.adjacency),
            "relation": ledger.adjacency.relation,
            "rows_per_unit": ledger.adjacency.rows_per_unit,
            "unit": schema.unit or "row",
            "accounting": ledger.accounting,
            "budget_used": min(ledger.used, 1.0),
            "meaning": meaning(fitted),
            "lifetime": ledger.to_dict()["lifetime"],
        },
        "method": {"name": fitted.method, "options": fitted.options, "seeds": seeds(fitted)},
        "ledger": ledger.to_dict(),
        "costs": costs(ledger),
        "schema": {
            "facts_read_from_the_data": schema.from_data_facts(),
            "facts_found_privately": schema.paid_facts(),
            "found_before": None if schema.discovery is None else dict(schema.discovery),
            "rules": [{"rule": str(form.rule), "rows_that_break_it": form.policy} for form in fitted.codec.forms],
        },
        "columns": [_column(fitted, name) for name in fitted.codec.arrow_schema.names],
        "limits": [*cautions(fitted), *LIMITS, *([FORMULAS[formulas]] if formulas else [])],
    }


def _column(fitted: Fitted, name: str) -> dict[str, Any]:
    column = fitted.schema.column(name)
    return {
        "name": name,
        "kind": column.kind,
        "type": str(fitted.codec.arrow_schema.field(name).type),
        "codes": fitted.codec.codes_of(name),
        "missing": column.missing,
        "from_data": list(column.from_data),
        "paid": list(column.paid),
        "merged": _merged(fitted, name),
    }


def _merged(fitted: Fitted, name: str) -> list[dict[str, Any]]:
    """Tell which codes of a column's attributes stood together in joint tables: a map made of released answers.

    Groups of numbers and dates are told by their number; of values in a list, those that were merged by their names,
    which the schema makes public.
    """
    model, part = arranged_of(fitted.model), fitted.codec.part_of(name)
    if part is None or not (isinstance(model, RecodedModel) and model.relates_columns):
        return []
    made = []
    for attribute, named in zip(part.domain, part.labels(), strict=True):
        if attribute in model.maps and len(model.maps[attribute].merged):
            found = model.maps[attribute]
            values = [] if part.domain.order(attribute).ordered else [str(named[code]) for code in found.merged]
            made.append({"attribute": attribute, "codes": len(named), "groups": found.size, "values": values})
    return made


def card_markdown(fitted: Fitted, rows: int, *, name: str, sha256: str | None = None) -> str:
    """Write the same card for people, in the form that data hubs read."""
    return markdown(card_json(fitted, rows, name=name, sha256=sha256))


def markdown(facts: dict[str, Any]) -> str:
    """Write the card that has these facts."""
    table, privacy, method = facts["table"], facts["privacy"], facts["method"]
    # Where too few seeds passed, none was used and every column was drawn: the ledger knows.
    mechanisms = {entry["mechanism"] for entry in facts["ledger"]["entries"]}
    deniable = "deniable" in mechanisms
    origin = DENIABLE if deniable else SEEDED if "seeded" in mechanisms else NOBODY
    parts = [_head(facts)]
    parts += [f"# {text(table['file'])}", f"A synthetic table of {counted(table['rows'], 'row')}. {origin}"]
    if table.get("conditions"):  # cards of earlier versions know none
        listed = " and ".join(code(condition) for condition in table["conditions"])
        parts += [f"> **{CONDITIONAL.format(conditions=listed)}**"]
    parts += [f"> **{text(stamp)}**" for stamp in facts["stamps"]]
    parts += ["## The guarantee"]
    parts += [VOID] if void(facts["stamps"]) else []
    parts += [f"**{_promise(privacy)}**", text(privacy["meaning"].removeprefix(f"{VOID} "))]
    spent = f"Accounting: {text(privacy['accounting'])}; {privacy['budget_used']:.1%} of the budget was used"
    parts += [
        bullets(
            "Deniable: which private row was the seed of a record, for each record by itself",
            "Not covered: whether a row was in the private table, and what many records tell together",
            f"{spent}, all of it for the model",
            f"Noise on what the model was learned from: {_noise(facts['stamps'])}",
        )
        if deniable
        else bullets(
            f"Protected unit: {_unit(privacy)}",
            f"Neighbouring tables: {text(privacy['neighbours'])}",
            spent,
            f"Noise: {_noise(facts['stamps'], '; their distance from the ideal law is part of delta')}",
        )
    ]
    parts += [text(lifetime(privacy["lifetime"]))]
    made = f"Method {code(method['name'])}{_options(method['options'])}, Weft {text(facts['weft'])}."
    parts += ["## How it was made", made]
    parts += [text(method["seeds"])] if method["seeds"] else []
    parts += ["Everything that was asked of the private rows:", _ledger(facts["ledger"], facts["costs"])]
    parts += ["## Columns", _columns(facts["columns"]), provenance(facts["schema"])]
    parts += merging(facts["columns"])
    parts += _rules(facts["schema"].get("rules", []))
    parts += ["## Known limits", bullets(*map(text, facts["limits"]))]
    checks = [f"SHA-256 of {code(table['file'])}: {code(table['sha256'])}"] if table["sha256"] else []
    if privacy["lifetime"] is not None:
        checks += [f"Entry of the lifetime budget: {code(privacy['lifetime']['head'])}"]
    parts += ["## Check", bullets(*checks)] if checks else []
    return "\n\n".join(parts) + "\n"


def _head(facts: dict[str, Any]) -> str:
    table, privacy = facts["table"], facts["privacy"]
    deniable = privacy["epsilon"] is None
    return "\n".join(
        [
            "---",
            f"pretty_name: {yaml(table['file'])}",
            f"tags: [synthetic, tabular, {'plausible-deniability' if deniable else 'differential-privacy'}, weft]",
            f"size_categories: [{_size_category(table['rows'])}]",
            "privacy:",
            f"  private: {'false' if facts['stamps'] else 'true'}",
            *(
                [f"  guarantee: {yaml(privacy['guarantee'])}"]
                if deniable
                else [
                    f"  epsilon: {at_most(privacy['epsilon'], 6)}",
                    f"  delta: {at_most(privacy['delta'], 6)}",
                    f"  neighbours: {yaml(privacy['neighbours'])}",
                ]
            ),
            f"method: {yaml(facts['method']['name'])}",
            "---",
        ]
    )


def _size_category(rows: int) -> str:
    names = ["n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "n>1B"]
    return names[min(max(len(str(rows)) - 3, 0), 7)]


def _promise(privacy: dict[str, Any]) -> str:
    if privacy["epsilon"] is None:
        return "Plausible deniability of each record, NOT differential privacy."
    bound = f"({at_most(privacy['epsilon'])}, {at_most(privacy['delta'], 3)})"
    return f"{bound}-differential privacy: {text(privacy['neighbours'])}."


def _noise(stamps: list[str], law: str = "") -> str:
    if NOT_PRIVATE in stamps:
        return "integers that follow from a seed, so that whoever knows it can take them away"
    return f"integers from the operating system's entropy{law}"


def _unit(privacy: dict[str, Any]) -> str:
    if privacy["unit"] == "row":
        return "one row"
    return f"all rows of one {text(privacy['unit'])} (up to {privacy['rows_per_unit']}; others were left out at random)"


def _options(options: dict[str, Any]) -> str:
    given = ", ".join(code(f"{name} = {json.dumps(value)}") for name, value in options.items())
    return f" with {given}" if given else ""


def _ledger(ledger: dict[str, Any], costs: dict[str, float | None]) -> str:
    unpriced = {"deniable": ["none", "", "unpriced: not differentially private"], "coins": ["", "", ""]}
    rows = [
        [text(entry["question"]), *unpriced[entry["mechanism"]]]
        if entry["mechanism"] in unpriced
        else [
            text(entry["question"]),
            "as if gaussian" if entry["mechanism"] == "seeded" else text(entry["mechanism"]),
            _range(entry["scale"]),
            f"{entry['cost'] / ledger['capacity']:.1%}",
        ]
        for entry in ledger["entries"]
    ]
    rows += [[f"**{name}**", "", "", f"**{priced(share)}**"] for name, share in costs.items()]
    return _grid(["question", "noise", "scale", "share of the budget"], rows)


def _range(scale: float | list[float]) -> str:
    scales = scale if isinstance(scale, list) else [scale]
    low, high = f"{min(scales):.4g}", f"{max(scales):.4g}"
    return low if low == high else f"{low} to {high}"


def _columns(columns: list[dict[str, Any]]) -> str:
    rows = [
        [
            text(column["name"]),
            text(column["kind"]),
            text(column["type"]),
            "made anew" if column["codes"] is None else str(column["codes"]),
            "yes" if column["missing"] else "",
            ", ".join(map(text, column["from_data"])),
        ]
        for column in columns
    ]
    return _grid(["column", "kind", "type", "values or bins", "may be missing", "read from the data"], rows)


def _rules(rules: list[dict[str, str]]) -> list[str]:
    if not rules:
        return []
    rows = [[text(rule["rule"]), text(rule["rows_that_break_it"])] for rule in rules]
    told = (
        "Every row of this table keeps these rules, which were declared public. How many private rows do stays private."
    )
    return ["## Rules", told, _grid(["rule", "private rows that break it were"], rows)]


def _grid(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
