"""The card of a release: guarantee, method, queries, columns and limitations, as JSON and as Markdown.

Privacy: everything is computed from the fitted model, its schema and its ledger; no private row is read.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from weft import __version__
from weft.display import format_count, format_scales
from weft.models.arranged import unwrap_arrangement
from weft.models.recoded import RecodedModel
from weft.privacy import at_most
from weft.privacy.mechanisms import find_mechanism
from weft.release.row_checks import RowStatement, rule_statements
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import (
    NOT_PRIVATE,
    VOID,
    compute_cost_shares,
    describe_lifetime,
    describe_seeds,
    explain_guarantee,
    format_budget_share,
    is_void,
    list_cautions,
)
from weft.synthesis.verdicts import Verdict, judge_columns

_SIGNS = re.compile(r"[\\`*\[\]<>|~&$]|(?<=:)//|(?<=www)\.", re.IGNORECASE)
_START = re.compile(r"^(\s*)(?:([#\-+=>_])|(\d+)([.)]))")
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "n>1B")
_JOINERS = "\u200c\u200d"  # invisible characters that some scripts need


def escape_markdown(value: object) -> str:
    r"""Escape a text so that Markdown renders it literally, on one line.

    >>> escape_markdown("# a|b\n<b>")
    '\\# a\\|b \\<b\\>'
    """
    return _START.sub(_escape_start, _SIGNS.sub(r"\\\g<0>", strip_invisible_signs(value)))


def _escape_start(found: re.Match[str]) -> str:
    return found[1] + (f"\\{found[2]}" if found[2] else f"{found[3]}\\{found[4]}")


def strip_invisible_signs(value: object) -> str:
    """Replace invisible characters, which could reverse the text direction or end the line."""
    return "".join(map(_replace_invisible_sign, str(value)))


def _replace_invisible_sign(sign: str) -> str:
    kind = unicodedata.category(sign)
    if kind in ("Cc", "Zl", "Zp"):
        return " "
    return "\N{REPLACEMENT CHARACTER}" if kind in ("Cf", "Cs", "Cn") and sign not in _JOINERS else sign


def format_code_span(value: object) -> str:
    """Format a text as a Markdown code span, with a fence longer than any run of backticks in it."""
    shown = strip_invisible_signs(value)
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def format_bullets(*lines: str) -> str:
    """Format lines as a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)


def format_markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


MERGED_SHOWN = 12
"""Maximum number of merged values that the page lists per attribute; the JSON card lists all."""


def describe_provenance(schema: dict[str, Any]) -> str:
    """State the provenance of the schema's facts: public, discovered privately, or read from the rows."""
    facts, paid, before = (schema[key] for key in ("facts_read_from_the_data", "facts_found_privately", "found_before"))
    told = []
    if facts:
        told.append(
            "These schema facts were read from the private rows and are not covered by the guarantee: "
            f"{', '.join(map(escape_markdown, facts))}."
        )
    if paid and before is None:
        told.append(
            f"{format_count(len(paid), 'schema fact')} ({_such_as(paid)}) came from private discovery, within the "
            "budget above."
        )
    if paid and before is not None:
        told.append(
            f"{format_count(len(paid), 'schema fact')} ({_such_as(paid)}) came from private discovery in an earlier "
            f"run on the same rows, which cost epsilon {at_most(before['epsilon'])} at delta "
            f"{at_most(before['delta'], 3)}. By basic composition, both runs together cost at most the sum of their "
            "epsilons at the sum of their deltas."
        )
    rest = "All others were" if told else "Every value list, range and bin above was"
    told.append(f"{rest} declared public by the author of the schema.")
    if not facts:
        told.append(
            "The guarantee depends on this: Weft cannot distinguish publicly known facts from facts that were read "
            "from the private rows."
        )
    return " ".join(told)


def _such_as(facts: list[str]) -> str:
    return escape_markdown(facts[0]) if len(facts) == 1 else f"such as {escape_markdown(facts[0])}"


def describe_verdicts(columns: Iterable[dict[str, Any]]) -> list[str]:
    """List the reasons for verdicts on columns, as Markdown."""
    told = {column["name"]: "; ".join(column["reasons"]) for column in columns if column.get("reasons")}
    lines = [f"{escape_markdown(name)}: {escape_markdown(reasons)}" for name, reasons in told.items()]
    return ["Reasons for the verdicts, computed from this release alone:", format_bullets(*lines)] if lines else []


def describe_merging(columns: list[dict[str, Any]]) -> list[str]:
    """List the values that were merged in marginals over several attributes, one line per attribute."""
    found = {part["attribute"]: part for column in columns for part in column.get("merged", [])}
    if not found:
        return []
    lines = []
    for part in found.values():
        told = f"{part['codes']:,} values or bins in {format_count(part['groups'], 'group')}"
        if part["values"]:
            shown = ", ".join(map(escape_markdown, part["values"][:MERGED_SHOWN]))
            more = len(part["values"]) - MERGED_SHOWN
            told = f"merged as rare: {shown}{f' and {more:,} more' if more > 0 else ''}"
        lines.append(f"{escape_markdown(part['attribute'])}: {told}")
    return [
        "In marginals over several attributes, these values were merged; noisy counts decided which:",
        format_bullets(*lines),
    ]


def rule_section(rules: list[dict[str, Any]]) -> list[str]:
    """Return the section on rules: treatment of private rows that break them, number of synthetic rows that do."""
    if not rules:
        return []
    head = ["rule", "private rows that break it were"]
    rows = [[escape_markdown(rule["rule"]), escape_markdown(rule["rows_that_break_it"])] for rule in rules]
    if not all("broken_rows" in rule for rule in rules):  # a card of an earlier version
        told = (
            "Every row of this table keeps these rules, which were declared public. How many private rows do stays "
            "private."
        )
        return ["## Rules", told, format_markdown_table(head, rows)]
    told = (
        "These rules were declared public. The last column shows how many rows of this table break them, counted when "
        "the table was written. The number of private rows that break them is not disclosed."
    )
    broken = [rule["broken_rows"] for rule in rules]
    told_rows = ["not checked" if n is None else format_count(n, "row") if n else "none" for n in broken]
    found = [[*row, each] for row, each in zip(rows, told_rows, strict=True)]
    return ["## Rules", told, format_markdown_table([*head, "rows of this table that break it"], found)]


def _describe_check(check: dict[str, Any]) -> str:
    if check["broken_rows"] is None:
        return f"not checked ({escape_markdown(check['reason'] or 'no reason is given')})"
    return f"violated in {format_count(check['broken_rows'], 'row')}" if check["broken_rows"] else "holds in every row"


CARD = 2
"""Version of the JSON card's format."""

LIMITS = (
    "Only the queries in the ledger were answered from the private rows. Relations that no query covers match those of "
    "the private table only by chance.",
    "Counts are noisy. Rare values and small groups may disappear, or appear although the private table has none.",
    "One-way marginals of numbers and dates are measured at fine resolution; marginals with other attributes use "
    "groups of adjacent values. The distribution within a group is therefore that of all rows, whatever the values of "
    "other attributes. Where the schema defines bins, and within the finest intervals, values are distributed "
    "uniformly.",
    "Rare values that were merged keep approximately their own frequencies, but share one set of relations to other "
    "attributes.",
    "Identifiers are generated and do not refer to real persons. Relations between rows, and their order, are not "
    "preserved.",
    "Statistical tests that treat these rows as real data overstate significance: they do not account for the noise.",
    "The guarantee covers tables that are accepted: an error message may reveal something exact about a row, and is "
    "PRIVATE. Column names are assumed to be public.",
)

NOBODY = "None of its rows belongs to a real person."

SEEDED = (
    "A record that was generated from a seed keeps some columns of a private row that shares their values with many "
    "other rows, according to a noisy test that the guarantee below covers. Everything else was drawn from a model."
)

DENIABLE = (
    "A record that was generated from a seed keeps some columns of a private row, subject to a test that other rows "
    "could equally have been its seed. Its other columns were drawn from a model, as were entire records where no row "
    "passes the test. This is plausible deniability of each record and NOT differential privacy."
)

FORMULAS = {
    "keep": "Cells may begin with =, +, - or @, like values of the private table: a spreadsheet may interpret them as "
    "formulas. Import the file as text, or use --formulas escape.",
    "escape": "Text cells that begin with =, +, -, @, a tab or a carriage return are prefixed with an apostrophe, so "
    "that spreadsheets do not interpret them as formulas: they differ from the values of the private table.",
}
"""Treatment of cells of a CSV file that spreadsheets would interpret as formulas."""

CONDITIONAL = (
    "This is a conditional sample: every row was drawn to satisfy {conditions}. It does not represent the whole table: "
    "proportions refer to such rows only, and the number of rows does not indicate how many there are."
)


def card_json(
    fitted: Fitted,
    rows: int,
    *,
    name: str,
    sha256: str | None = None,
    formulas: str | None = None,
    conditions: Sequence[str] = (),
    statements: Sequence[RowStatement] | None = None,
) -> dict[str, Any]:
    """Return the card as plain JSON values.

    Parameters
    ----------
    formulas
        Treatment of cells that look like formulas: "keep" or "escape" for CSV, None for other formats.
    conditions
        Conditions that every row was drawn to satisfy.
    statements
        Results of the checks on the rows as they were written (`weft.release.row_checks`); None if not checked.
    """
    ledger, schema = fitted.ledger, fitted.schema
    statement = ledger.spend_statement()
    verdicts = {verdict.column: verdict for verdict in judge_columns(fitted)}
    return {
        "card": CARD,
        "weft": __version__,
        "table": {"file": name, "rows": rows, "sha256": sha256, "formulas": formulas, "conditions": list(conditions)},
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
            "accounting": ledger.accounting.name,
            "budget_used": min(ledger.used, 1.0),
            "meaning": explain_guarantee(fitted),
            "lifetime": ledger.to_dict()["lifetime"],
        },
        "method": {"name": fitted.method, "options": fitted.options, "seeds": describe_seeds(fitted)},
        "ledger": ledger.to_dict(),
        "costs": compute_cost_shares(ledger),
        "schema": {
            "facts_read_from_the_data": schema.from_data_facts(),
            "facts_found_privately": schema.paid_facts(),
            "found_before": None if schema.discovery is None else dict(schema.discovery),
            "rules": _rule_facts(fitted, statements),
            # The codec contains the facts themselves: it is omitted if any was read from private rows.
            "codec": None if schema.from_data_facts() else fitted.codec.to_dict(),
        },
        "checks": [statement.to_dict() for statement in statements or ()],
        "columns": [_describe_column_facts(fitted, verdicts[name]) for name in fitted.codec.arrow_schema.names],
        "limits": [*list_cautions(fitted), *LIMITS, *([FORMULAS[formulas]] if formulas else [])],
    }


def _rule_facts(fitted: Fitted, statements: Sequence[RowStatement] | None) -> list[dict[str, Any]]:
    """Return each rule with the treatment of private rows and the number of synthetic rows that break it."""
    forms = fitted.codec.forms
    checked = [None] * len(forms) if statements is None else rule_statements(fitted.codec, statements)
    return [
        {
            "rule": str(form.rule),
            "rows_that_break_it": form.policy,
            "broken_rows": None if found is None else found.broken_rows,
        }
        for form, found in zip(forms, checked, strict=True)
    ]


def _describe_column_facts(fitted: Fitted, verdict: Verdict) -> dict[str, Any]:
    name = verdict.column
    column = fitted.schema.column(name)
    return {
        "name": name,
        "kind": column.kind,
        "type": str(fitted.codec.arrow_schema.field(name).type),
        "codes": fitted.codec.codes_of(name),
        "missing": column.missing,
        "from_data": list(column.from_data),
        "paid": list(column.paid),
        "merged": _list_merged_codes(fitted, name),
        "verdict": verdict.grade,
        "reasons": list(verdict.reasons),
    }


def _list_merged_codes(fitted: Fitted, name: str) -> list[dict[str, Any]]:
    """Return, for each attribute of a column, the codes that were merged in marginals over several attributes.

    For ordered attributes the number of groups is stated; other merged values are listed, since the schema is public.

    Privacy: post-processing, since the map was computed from released measurements.
    """
    model, part = unwrap_arrangement(fitted.model), fitted.codec.part_of(name)
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
    """Return the card as Markdown with a YAML header, as data hubs expect."""
    return render_card(card_json(fitted, rows, name=name, sha256=sha256))


def render_card(facts: dict[str, Any]) -> str:
    """Render the JSON card as Markdown."""
    table, privacy, method = facts["table"], facts["privacy"], facts["method"]
    # The ledger decides: where too few seeds passed the test, no seed was used and every column was drawn.
    mechanisms = {find_mechanism(entry["mechanism"]) for entry in facts["ledger"]["entries"]}
    deniable = any(not each.is_private for each in mechanisms)
    origin = DENIABLE if deniable else SEEDED if any(each.grows_private_records for each in mechanisms) else NOBODY
    parts = [_render_head(facts)]
    parts += [
        f"# {escape_markdown(table['file'])}",
        f"A synthetic table of {format_count(table['rows'], 'row')}. {origin}",
    ]
    if table.get("conditions"):  # absent from cards of earlier versions
        listed = " and ".join(format_code_span(condition) for condition in table["conditions"])
        parts += [f"> **{CONDITIONAL.format(conditions=listed)}**"]
    parts += [f"> **{escape_markdown(stamp)}**" for stamp in facts["stamps"]]
    parts += ["## Privacy guarantee"]
    parts += [VOID] if is_void(facts["stamps"]) else []
    parts += [f"**{_describe_promise(privacy)}**", escape_markdown(privacy["meaning"].removeprefix(f"{VOID} "))]
    spent = f"Accounting: {escape_markdown(privacy['accounting'])}; {privacy['budget_used']:.1%} of the budget was used"
    parts += [
        format_bullets(
            "Deniable: which private row was the seed of a record, for each record separately",
            "Not covered: whether a row was in the private table, and what many records reveal together",
            f"{spent}, all of it for the model",
            f"Noise of the model's measurements: {_describe_noise_source(facts['stamps'])}",
        )
        if deniable
        else format_bullets(
            f"Privacy unit: {_describe_unit(privacy)}",
            f"Neighbouring tables: {escape_markdown(privacy['neighbours'])}",
            spent,
            f"Noise: {_describe_noise_source(facts['stamps'], INCLUDED_IN_DELTA)}",
        )
    ]
    parts += [escape_markdown(describe_lifetime(privacy["lifetime"]))]
    given = ", ".join(format_code_span(f"{name} = {json.dumps(value)}") for name, value in method["options"].items())
    made = (
        f"Method {format_code_span(method['name'])}{f' with {given}' if given else ''}, Weft "
        f"{escape_markdown(facts['weft'])}."
    )
    parts += ["## Method", made]
    parts += [escape_markdown(method["seeds"])] if method["seeds"] else []
    parts += ["Queries answered from the private rows:", _render_ledger(facts["ledger"], facts["costs"])]
    parts += [
        "## Columns",
        _render_columns_table(facts["columns"]),
        *describe_verdicts(facts["columns"]),
        describe_provenance(facts["schema"]),
    ]
    parts += describe_merging(facts["columns"])
    parts += rule_section(facts["schema"].get("rules", []))
    parts += ["## Known limitations", format_bullets(*map(escape_markdown, facts["limits"]))]
    checks = (
        [f"SHA-256 of {format_code_span(table['file'])}: {format_code_span(table['sha256'])}"]
        if table["sha256"]
        else []
    )
    if privacy["lifetime"] is not None:
        checks += [f"Entry of the lifetime budget: {format_code_span(privacy['lifetime']['head'])}"]
    stated = facts.get("checks", [])  # absent from cards of earlier versions
    checks += [f"{escape_markdown(check['what'])}: {_describe_check(check)}" for check in stated]
    parts += ["## Verification", format_bullets(*checks)] if checks else []
    return "\n\n".join(parts) + "\n"


def _render_head(facts: dict[str, Any]) -> str:
    table, privacy = facts["table"], facts["privacy"]
    deniable = privacy["epsilon"] is None
    return "\n".join(  # YAML, of which JSON is a subset
        [
            "---",
            f"pretty_name: {json.dumps(table['file'])}",
            f"tags: [synthetic, tabular, {'plausible-deniability' if deniable else 'differential-privacy'}, weft]",
            f"size_categories: [{_SIZES[min(max(len(str(table['rows'])) - 3, 0), 7)]}]",
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
            f"method: {json.dumps(facts['method']['name'])}",
            "---",
        ]
    )


def _describe_promise(privacy: dict[str, Any]) -> str:
    if privacy["epsilon"] is None:
        return "Plausible deniability of each record, NOT differential privacy."
    bound = f"({at_most(privacy['epsilon'])}, {at_most(privacy['delta'], 3)})"
    return f"{bound}-differential privacy: {escape_markdown(privacy['neighbours'])}."


INCLUDED_IN_DELTA = "; the distance from the ideal distribution is included in delta"


def _describe_noise_source(stamps: list[str], law: str = "") -> str:
    if NOT_PRIVATE in stamps:
        return "integer noise generated from a seed: anyone who knows the seed can remove it"
    return f"integer noise from the operating system's entropy source{law}"


def _describe_unit(privacy: dict[str, Any]) -> str:
    if privacy["unit"] == "row":
        return "one row"
    bound = format_count(privacy["rows_per_unit"], "row")
    return f"all rows of one {escape_markdown(privacy['unit'])} (contribution bound: {bound}, selected at random)"


def _render_ledger(ledger: dict[str, Any], costs: dict[str, float | None]) -> str:
    rows = [
        [escape_markdown(entry["question"]), *_describe_noise(entry, ledger["capacity"])] for entry in ledger["entries"]
    ]
    rows += [[f"**{name}**", "", "", f"**{format_budget_share(share)}**"] for name, share in costs.items()]
    return format_markdown_table(["query", "noise", "scale", "share of the budget"], rows)


def _describe_noise(entry: dict[str, Any], capacity: float) -> list[str]:
    """Return the noise mechanism of a ledger entry, its scale and its share of the budget."""
    mechanism = find_mechanism(entry["mechanism"])
    if not mechanism.is_private:
        return ["none", "", "unpriced: not differentially private"]
    if mechanism.divides_rows:
        return ["", "", ""]
    # Records generated from seeds are as private as a count with this much Gaussian noise.
    name = "gaussian equivalent" if mechanism.grows_private_records else escape_markdown(entry["mechanism"])
    return [name, format_scales(entry["scale"]), f"{entry['cost'] / capacity:.1%}"]


def _render_columns_table(columns: list[dict[str, Any]]) -> str:
    rows = [
        [
            escape_markdown(column["name"]),
            escape_markdown(column["kind"]),
            escape_markdown(column["type"]),
            "generated" if column["codes"] is None else str(column["codes"]),
            "yes" if column["missing"] else "",
            ", ".join(map(escape_markdown, column["from_data"])),
            column.get("verdict", ""),  # absent from cards of earlier versions
        ]
        for column in columns
    ]
    return format_markdown_table(
        ["column", "kind", "type", "values or bins", "may be missing", "read from the data", "verdict"], rows
    )
