"""The released files: the synthetic table, and a card that says what it is and what is promised about it.

Nothing here has seen a private row: everything comes from the fitted model, its schema and its ledger.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from weft import __version__
from weft.atomic import staged
from weft.errors import OutputError
from weft.modelfile import Fitted
from weft.privacy import Charge, Ledger, at_most
from weft.privacy.ledger import DENIABILITY
from weft.privacy.plausible import PlausibleTest
from weft.progress import Listener, silence, stage

if TYPE_CHECKING:
    import pyarrow as pa

CARD = 1
"""Version of the card's JSON."""

FORMATS = (".csv", ".parquet")
"""Kinds of file that a table can be released as, by suffix."""

LIMITS = (
    "Only what the ledger lists was asked of the private rows. Relations between columns that no question covers are "
    "not in this table, except by chance.",
    "Counts carry noise. Rare values and small groups may be lost, or appear where there were none.",
    "Inside a bin of numbers or dates, values are drawn evenly: finer detail is not learned.",
    "Identifiers are made up and point to nobody. Relations between rows, and their order, are not kept.",
    "Statistical tests that take these rows for real ones overstate their certainty: the noise is not in their model.",
)
"""What no release of this kind preserves."""

NOBODY = "No row of it belongs to a person."

SEEDED = (
    "Each record begins with columns of a private row that shares them with many others, by a noisy test that the "
    "guarantee below covers. Its other columns were drawn from a model."
)

DENIABLE = (
    "Each record begins with columns of a private row, behind a test that other rows could as well have been its seed. "
    "This is plausible deniability of each record and NOT differential privacy. Its other columns were drawn from a "
    "model."
)

LOOK = "seeds that would pass the privacy test"
"""How the question begins by which a budget for seeds is looked over."""

APART = "Columns were learned one by one: no relation between any two columns is kept."


@dataclass(frozen=True)
class Files:
    """The files of one release, which stand or fall together."""

    data: Path
    card: Path
    card_json: Path

    @classmethod
    def of(cls, data: Path) -> Files:
        """Name the files of a release after its table; OutputError if its suffix names no format."""
        if data.suffix.lower() not in FORMATS:
            raise OutputError(f"cannot tell the format of {data}: name it .csv or .parquet, or - for CSV on stdout.")
        return cls(data, data.with_suffix(".card.md"), data.with_suffix(".card.json"))

    def __iter__(self) -> Iterator[Path]:
        return iter((self.data, self.card, self.card_json))


def publish(
    fitted: Fitted, tables: Iterable[pa.Table], files: Files, *, listener: Listener = silence
) -> dict[str, Any]:
    """Write a table, block by block, and its cards: all of them or none. Return the card."""
    with staged(*files) as (data, card, card_as_json):
        rows = write_table(tables, data, files.data.suffix, listener=listener)
        facts = card_json(fitted, rows, name=files.data.name, sha256=_sha256(data))
        card.write_text(_markdown(facts), encoding="utf-8")
        card_as_json.write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return facts


def write_table(
    tables: Iterable[pa.Table], sink: Path | IO[bytes], suffix: str = ".csv", *, listener: Listener = silence
) -> int:
    """Write blocks of rows as they come, as CSV or Parquet; return how many rows there were."""
    rows = 0
    blocks = iter(tables)
    first = next(blocks)
    opened = _parquet if suffix.lower() == ".parquet" else _csv
    with opened(sink, first.schema) as write, stage(listener, "write") as work:
        block: pa.Table | None = first
        while block is not None:
            write(block)
            rows += block.num_rows
            work.advance(note=f"{rows:,} rows")
            block = next(blocks, None)
    return rows


@contextmanager
def _csv(sink: Path | IO[bytes], schema: pa.Schema) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv

    plain = pa.schema([field.with_type(_csv_type(field.type)) for field in schema])
    with pyarrow.csv.CSVWriter(sink, plain) as writer:
        yield lambda table: writer.write_table(table.cast(plain))


def _csv_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type whose values are written in place of these, which Arrow's CSV writer does not know."""
    import pyarrow as pa

    if pa.types.is_dictionary(arrow_type):
        return _csv_type(arrow_type.value_type)
    return pa.string() if pa.types.is_string_view(arrow_type) else arrow_type


@contextmanager
def _parquet(sink: Path | IO[bytes], schema: pa.Schema) -> Iterator[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        yield writer.write_table


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def card_json(fitted: Fitted, rows: int, *, name: str, sha256: str | None = None) -> dict[str, Any]:
    """Return everything a stranger needs to know of a release, as plain JSON values."""
    ledger, schema = fitted.ledger, fitted.schema
    statement = ledger.spend_statement()
    limits = [APART, *LIMITS] if fitted.model.kind == "independent" else list(LIMITS)
    return {
        "card": CARD,
        "weft": __version__,
        "table": {"file": name, "rows": rows, "sha256": sha256},
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
        },
        "method": {"name": fitted.method, "options": fitted.options, "seeds": seeds(fitted)},
        "ledger": ledger.to_dict(),
        "costs": costs(ledger),
        "schema": {"facts_read_from_the_data": schema.from_data_facts()},
        "columns": [_column(fitted, name) for name in fitted.codec.arrow_schema.names],
        "limits": limits,
    }


def _column(fitted: Fitted, name: str) -> dict[str, Any]:
    column, domain = fitted.schema.column(name), fitted.codec.domain
    return {
        "name": name,
        "kind": column.kind,
        "type": str(fitted.codec.arrow_schema.field(name).type),
        "codes": domain.size(name) if name in domain else None,
        "missing": column.missing,
        "from_data": list(column.from_data),
    }


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
    return entry.mechanism == "seeded" or entry.question.startswith(LOOK)


def priced(share: float | None) -> str:
    """Say what a share of the budget is, or that there is none."""
    return "unpriced" if share is None else f"{share:.1%}"


def seeds(fitted: Fitted) -> str | None:
    """Say how many records were grown from seeds, where seeds were asked for and the whole table is private."""
    if fitted.model.kind != "seeded" or fitted.ledger.deniable:
        return None
    grown = sum(entry.draws for entry in fitted.ledger.entries if entry.mechanism == "seeded")
    wanted = fitted.options.get("rows", 0)
    if grown == wanted:
        return f"All {grown:,} records were grown from seeds."
    some = (
        f"{grown:,} of {wanted:,} records were grown from seeds, the others" if grown else "No seed was used: records"
    )
    return (
        f"{some} were drawn whole from the model. No test that the budget can pay for lets enough seeds pass for them, "
        "or they were to have every column drawn. Fewer records, a larger omega or a larger epsilon leave more room."
    )


def meaning(fitted: Fitted) -> str:
    """Say what the guarantee promises to a person whose data is in the table."""
    ledger = fitted.ledger
    if ledger.deniable:
        return _deniability(ledger)
    statement = ledger.spend_statement()
    unit = "one row" if fitted.schema.unit is None else f"everything of one {fitted.schema.unit}"
    change = (
        f"whether or not {unit} was in the private table"
        if ledger.adjacency.relation == "add-remove"
        else f"whatever {unit} of the private table said"
    )
    factor = math.exp(min(statement.epsilon, 700.0))
    guess = at_most(100 * factor / (1 + factor), 3)
    slack = f", give or take {at_most(statement.delta, 2)}" if statement.delta > 1e-30 else ""
    return (
        f"Anything that anybody concludes from this release is about as likely {change}: its probability changes by "
        f"a factor of at most e^{at_most(statement.epsilon)} = {at_most(factor)}{slack}. Somebody for whom it was a "
        f"coin toss before can be at most {guess}% sure of it afterwards."
    )


def _deniability(ledger: Ledger) -> str:
    """Say what deniable records promise, and what they do not."""
    test = PlausibleTest.of(next(entry.terms for entry in ledger.entries if entry.mechanism == "deniable"))
    seeds = f"at least {test.k}" if test.epsilon0 is None else f"about {test.k} (a noisy threshold)"
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
        f"Each record, looked at alone, could have been grown from {seeds} private rows with the same probability, and "
        "nobody can tell from it which of them was its seed. That a row was in the table can show all the same, and "
        "many records together tell more than one: no bound holds for the table as a whole. The ledger tells what "
        f"learning the model cost; it does not cover these records.{said}"
    )


def card_markdown(fitted: Fitted, rows: int, *, name: str, sha256: str | None = None) -> str:
    """Write the same card for people, in the form that data hubs read."""
    return _markdown(card_json(fitted, rows, name=name, sha256=sha256))


def _markdown(facts: dict[str, Any]) -> str:
    table, privacy, method = facts["table"], facts["privacy"], facts["method"]
    # Where too few seeds passed, none was used and every column was drawn: the ledger knows.
    mechanisms = {entry["mechanism"] for entry in facts["ledger"]["entries"]}
    deniable = "deniable" in mechanisms
    origin = DENIABLE if deniable else SEEDED if "seeded" in mechanisms else NOBODY
    parts = [_head(facts)]
    parts += [f"# {table['file']}", f"A synthetic table of {table['rows']:,} rows. {origin}"]
    parts += [f"> **{stamp}**" for stamp in facts["stamps"]]
    parts += ["## The guarantee"]
    if any(stamp != DENIABILITY for stamp in facts["stamps"]):
        parts += ["What follows would hold, were it not for the warning above."]
    parts += [f"**{_promise(privacy)}**", privacy["meaning"]]
    spent = f"Accounting: {privacy['accounting']}; {privacy['budget_used']:.1%} of the budget was used"
    parts += [
        _listed(
            "Deniable: which private row was the seed of a record, for each record by itself",
            "Not covered: whether a row was in the private table, and what many records tell together",
            f"{spent}, all of it for the model",
            "Noise on what the model was learned from: integers from the operating system's entropy",
        )
        if deniable
        else _listed(
            f"Protected unit: {_unit(privacy)}",
            f"Neighbouring tables: {privacy['neighbours']}",
            spent,
            "Noise: integers from the operating system's entropy; their distance from the ideal law is part of delta",
        )
    ]
    parts += ["## How it was made", f"Method `{method['name']}`{_options(method['options'])}, Weft {facts['weft']}."]
    parts += [method["seeds"]] if method["seeds"] else []
    parts += ["Everything that was asked of the private rows:", _ledger(facts["ledger"], facts["costs"])]
    parts += ["## Columns", _columns(facts["columns"]), _provenance(facts["schema"]["facts_read_from_the_data"])]
    parts += ["## Known limits", _listed(*facts["limits"])]
    if table["sha256"]:
        parts += ["## Check", f"SHA-256 of `{table['file']}`: `{table['sha256']}`"]
    return "\n\n".join(parts) + "\n"


def _head(facts: dict[str, Any]) -> str:
    table, privacy = facts["table"], facts["privacy"]
    deniable = privacy["epsilon"] is None
    return "\n".join(
        [
            "---",
            f"pretty_name: {json.dumps(table['file'])}",
            f"tags: [synthetic, tabular, {'plausible-deniability' if deniable else 'differential-privacy'}, weft]",
            f"size_categories: [{_size_category(table['rows'])}]",
            "privacy:",
            f"  private: {'false' if facts['stamps'] else 'true'}",
            *(
                [f"  guarantee: {json.dumps(privacy['guarantee'])}"]
                if deniable
                else [
                    f"  epsilon: {at_most(privacy['epsilon'], 6)}",
                    f"  delta: {at_most(privacy['delta'], 6)}",
                    f"  neighbours: {json.dumps(privacy['neighbours'])}",
                ]
            ),
            f"method: {facts['method']['name']}",
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
    return f"{bound}-differential privacy: {privacy['neighbours']}."


def _unit(privacy: dict[str, Any]) -> str:
    if privacy["unit"] == "row":
        return "one row"
    return f"all rows of one {privacy['unit']} (up to {privacy['rows_per_unit']}; others were left out at random)"


def _options(options: dict[str, Any]) -> str:
    given = ", ".join(f"{name} = {value}" for name, value in options.items())
    return f" with {given}" if given else ""


def _ledger(ledger: dict[str, Any], costs: dict[str, float | None]) -> str:
    unpriced = {"deniable": ["none", "", "unpriced: not differentially private"], "coins": ["", "", ""]}
    rows = [
        [entry["question"], *unpriced[entry["mechanism"]]]
        if entry["mechanism"] in unpriced
        else [
            entry["question"],
            "as if gaussian" if entry["mechanism"] == "seeded" else entry["mechanism"],
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
            column["name"],
            column["kind"],
            column["type"],
            "made anew" if column["codes"] is None else str(column["codes"]),
            "yes" if column["missing"] else "",
            ", ".join(column["from_data"]),
        ]
        for column in columns
    ]
    return _grid(["column", "kind", "type", "values or bins", "may be missing", "read from the data"], rows)


def _provenance(facts: list[str]) -> str:
    if not facts:
        return "Every value list, range and bin above is public knowledge: the schema took nothing from private rows."
    return (
        "These facts of the schema were read from the private rows, outside the guarantee: "
        f"{', '.join(facts)}. All others are public knowledge."
    )


def _grid(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _listed(*lines: str) -> str:
    return "\n".join(f"- {line}" for line in lines)
