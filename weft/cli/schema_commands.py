"""`weft schema`: draft and check schemas; import and export them from and to other metadata formats."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli import schema_review as review
from weft.cli import shared_options as o
from weft.cli.discovered_schema import paid_draft
from weft.cli.failure import guard_command
from weft.cli.fit_options import Price, PrivacyUnitOptions, check_files, one_or_several
from weft.cli.shared_options import TextFile, flatten_options
from weft.cli.terminal import Terminal
from weft.display import format_count
from weft.errors import OutputError
from weft.io.addresses import kind_of_address, without_credentials
from weft.progress import report_stage

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from weft.drafting.draft import Draft
    from weft.encoding import Codec
    from weft.io.dialect import Dialect
    from weft.schema import Schema


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Draft a schema from a table or a data dictionary, review it and check it.",
)
app.command("review")(review.review)

DRAFT_IS_PRIVATE = "the draft has facts read from private rows: do not share it until all from_data marks are reviewed"

Format = Literal["frictionless", "csvw", "croissant"]


@app.command("import")
def import_schema(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="SDV, Frictionless or CSVW JSON, or a data dictionary as CSV.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The schema; - for stdout.")] = "-",
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Table to import, if there are several.")] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
    debug: o.Debug = False,
) -> None:
    """Create a schema from existing metadata. No row is read.

    Reads SDV metadata, Frictionless schemas and packages, CSVW, and data dictionaries as
    CSV (column, description, type, values). Facts that the metadata does not state are left out.

    \b
    [bold]Examples[/bold]
      weft schema import dictionary.csv -o stays.toml
      weft schema import datapackage.json --table stays -o stays.toml
    """
    terminal = Terminal(debug=debug, data_on_stdout=output == "-")
    with guard_command(terminal):
        from weft.drafting.exchange import read_metadata

        text, form = read_metadata(Path(source), table)
        _write_output(terminal, text, output, source, force)
        terminal.show(f"[bold green]✓[/bold green] read as {form}; next: weft schema check {output}")


@app.command("export")
def export_schema(
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="A schema file.")],
    to: Annotated[Format, typer.Option(metavar="FORMAT", help="frictionless, csvw or croissant.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The metadata; - for stdout.")] = "-",
    table: Annotated[
        str | None, typer.Option(metavar="FILE", help="File name of the table. Default: the schema's name with .csv.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
    debug: o.Debug = False,
) -> None:
    """Export a schema as metadata for other programs, to accompany a release.

    \b
    [bold]Examples[/bold]
      weft schema export stays.toml --to frictionless --table made.csv -o datapackage.json
      weft schema export stays.toml --to croissant --table made.csv -o croissant.json
    """
    terminal = Terminal(debug=debug, data_on_stdout=output == "-")
    with guard_command(terminal):
        from weft.drafting.exchange import EXPORTS
        from weft.schema import Schema

        read = Schema.load(schema)
        made = EXPORTS[to](read, table or f"{Path(schema).stem}.csv")
        _write_output(
            terminal, json.dumps(made, indent=1, ensure_ascii=False, default=str) + "\n", output, schema, force
        )
        if read.from_data_facts():
            terminal.warn("this file has facts that the schema read from private rows: review the schema first")


def _write_output(terminal: Terminal, text: str, output: str, source: str, force: bool) -> None:
    """Write a text to stdout or to a file; replace an existing file only with --force."""
    if output == "-":
        sys.stdout.buffer.write(text.encode())
        return
    from weft.io.atomic_files import stage_files

    out = Path(output)
    check_files({"the input file": Path(source)}, {"the output file": out})
    if out.is_file() and not force:
        raise OutputError(f"{out} already exists. Choose another name, or pass --force.")
    with stage_files(out) as (file,):
        file.write_text(text, encoding="utf-8")
    terminal.show(f"[bold green]✓[/bold green] {out} written")


@app.command()
@flatten_options
def draft(
    source: o.Input,
    price: Price,
    protected: PrivacyUnitOptions,
    text: TextFile,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The schema, as TOML; - for stdout.")
    ] = "-",
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
    few_rows: o.FewRows = False,
    debug: o.Debug = False,
) -> None:
    """Draft a schema from a table, for a person to review.

    The draft is PRIVATE: its value lists and ranges are read from the rows and
    marked from_data. `weft schema review` steps through them. Lists of more than
    200 values are written to separate files, in the folder NAME.values.
    With --private, discovery finds the facts with noise, at a cost of --epsilon,
    and marks them as paid: such a schema may be published and reused at no
    further privacy cost. Several files with different columns, a folder or a
    database become a schema of related tables: keys and links are proposed from
    declared constraints or from names, with one draft of columns per table.

    \b
    [bold]Examples[/bold]
      weft schema draft stays.csv -o stays.toml
      weft schema draft patients.csv stays.csv -o hospital.toml
      weft schema draft sqlite:hospital.sqlite -o hospital.toml
      weft schema review stays.toml
      weft schema draft stays.csv --private --epsilon 0.1 -o stays.toml

    An existing file is not replaced, since it may have been reviewed, unless --force is given.
    """
    out = None if output == "-" else Path(output)
    terminal = Terminal(debug=debug, data_on_stdout=out is None)
    with guard_command(terminal):
        named = one_or_several(source)
        if not price.private and price.epsilon is None and _draft_tables(terminal, source, text.dialect, out, force):
            return
        if price.private or price.epsilon is not None:
            who = protected.who(None)
            request = price.request(
                out, source=named, unit=who.unit, rows_per_unit=who.rows_per_unit, dialect=text.dialect
            )
            assert out is not None
            _check_free(out, force)
            paid_draft(terminal, request, out, few_rows)
        else:
            _read_draft(terminal, named, text.dialect, out, force)


def _draft_tables(terminal: Terminal, source: list[str], dialect: Dialect, out: Path | None, force: bool) -> bool:
    """Draft a schema of related tables, and one of each table beside it; return False for one table."""
    from weft.drafting.database_draft import find_tables, sketch_tables, write_database_draft
    from weft.io.atomic_files import stage_files

    tables = find_tables(source)
    if not tables:
        return False
    address = source[0] if kind_of_address(source[0]) else None
    with terminal.progress() as listener, report_stage(listener, "read and draft"):
        made = sketch_tables(tables, dialect, address)
    if not made:
        return False
    if out is None:
        raise OutputError("a draft of several tables is several files: name the first with -o FILE")
    folder = out.with_name(f"{out.stem}.tables")
    _check_free(out, force)
    for name in made:
        _check_free(folder / f"{name}.toml", force)
    folder.mkdir(exist_ok=True)
    for name, table in made.items():
        check_files({"the private table": table.source}, {"the draft": folder / f"{name}.toml"})
        _write_draft(table.columns, folder / f"{name}.toml", table.source, force)
    with stage_files(out) as (file,):
        file.write_text(write_database_draft(made, folder.name), encoding="utf-8")
    terminal.show(
        f"[bold green]✓[/bold green] {out} drafted, and {format_count(len(made), 'table')} in {folder}; check keys and "
        f"links, then: weft schema review {out}"
    )
    terminal.warn(
        "the drafts have facts read from private rows: do not share them until all from_data marks are reviewed"
    )
    return True


def _read_draft(terminal: Terminal, source: str | list[str], dialect: Dialect, out: Path | None, force: bool) -> None:
    from weft.drafting.draft import sketch_source

    if out is not None:
        check_files({"the private table": source}, {"the draft": out})
        _check_free(out, force)
    with terminal.progress() as listener, report_stage(listener, "read and draft"):
        drafted = sketch_source(source, dialect)
    if out is None:
        sys.stdout.buffer.write(drafted.inline().encode())
    else:
        _write_draft(drafted, out, source, force)
        terminal.show(f"[bold green]✓[/bold green] {out} drafted; next: weft schema review {out}")
    terminal.warn(DRAFT_IS_PRIVATE)


@app.command()
@flatten_options
def check(
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="The schema: TOML, or domain JSON.")],
    text: TextFile,
    source: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Optional table, whose column names and types must match.")
    ] = None,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Check a schema: show codes by column, facts still marked from_data, and warnings.

    With a table, also check that names and types match. No row is read.

    \b
    [bold]Examples[/bold]
      weft schema check stays.toml
      weft schema check stays.toml stays.csv
    """
    terminal = Terminal(as_json, debug=debug)
    with guard_command(terminal):
        from weft.encoding import Codec
        from weft.schema import Schema
        from weft.schema.database import is_database_document

        dialect = text.dialect
        if is_database_document(schema):
            _check_database(terminal, schema, source)
            return
        read = dialect.marking(Schema.load(schema))
        stated = read.stated if read.incomplete else read
        codec = Codec(stated, _arrow_schema(stated, source, dialect))
        found = _collect_findings(stated, codec) | {"found_privately": [column.name for column in read.unknown]}
        terminal.answer(found)
        if not as_json:
            _print_check(terminal, found, schema, source)


def _check_database(terminal: Terminal, schema: str, source: str | None) -> None:
    """Check a schema of related tables: the columns of each, keys, links and the privacy unit."""
    from weft.cli import summary
    from weft.encoding import Codec
    from weft.io.text_to_types import csv_arrow_schema
    from weft.schema.database import Database

    if source is not None:
        raise o.UsageError("a schema of related tables is checked without tables: leave out the file")
    read = Database.load(schema)
    found: dict[str, Any] = {"unit": read.unit, "rows_per_unit": read.rows_per_unit, "tables": {}}
    for table in read.tables:
        stated = table.schema.stated if table.schema.incomplete else table.schema
        unknown = [column.name for column in table.schema.unknown]
        facts: dict[str, Any] = {"columns": [], "rules": [], "log10_domain": 0.0, "unit": None, "warnings": []}
        if stated.modelled:  # otherwise nothing but keys is described
            facts = _collect_findings(stated, Codec(stated, csv_arrow_schema(stated)))
        warned = [f'table "{table.name}": {told}' for told in facts["warnings"] if "privacy unit" not in told]
        facts |= {"found_privately": unknown, "warnings": warned}
        found["tables"][table.name] = facts | {"keys": table.to_dict() | {"columns": None}}
    found["from_data"] = read.from_data_facts()
    terminal.answer(found)
    if terminal.json:
        return
    for table in read.tables:
        links = ", ".join(map(str, table.links)) or "refers to no other table"
        bound = f"at most {format_count(table.max_children, 'row')} per parent" if table.parent else "no parent"
        terminal.show(summary.render_heading(f"{table.name}: key {table.key or 'none'}; {links}; {bound}"))
        _print_check(terminal, found["tables"][table.name], table.name, None, related=True)
    left = found["from_data"]
    verdict = f"{format_count(len(left), 'fact')} still to be reviewed before synth" if left else "valid"
    terminal.show(
        summary.render_facts({"protects": f"all rows of one {read.unit}, up to {read.rows_per_unit} in all tables"}),
        _render_line("!" if left else "✓", "yellow" if left else "green", f"{schema}: {verdict}"),
    )


def _collect_findings(schema: Schema, codec: Codec) -> dict[str, Any]:
    from weft.drafting.schema_check import review_schema as findings

    domain = codec.domain
    columns = [
        {
            "name": field.name,
            "kind": schema.column(field.name).kind,
            "type": str(field.type),
            "codes": codec.codes_of(field.name),
            "modelled": schema.column(field.name).modelled,
            "attributes": [] if (part := codec.part_of(field.name)) is None else list(part.domain),
            "missing": schema.column(field.name).missing,
            "outside": schema.column(field.name).outside,
            "from_data": list(schema.column(field.name).from_data),
        }
        for field in codec.arrow_schema
    ]
    told: dict[str | None, list[str]] = {}
    for finding in findings(schema, codec.arrow_schema):
        if finding.level == "warning":
            told.setdefault(finding.column, []).append(finding.text)
    return {
        "columns": columns,
        "rules": [
            {
                "rule": str(form.rule),
                "attribute": form.attribute,
                "form": form.text,
                "policy": form.rule.policy,
                "rows": form.policy,
            }
            for form in codec.forms
        ],
        "log10_domain": domain.log10_size(),
        "unit": schema.unit,
        "rows_per_unit": schema.rows_per_unit,
        "warnings": [("" if name is None else f'column "{name}": ') + "; also, ".join(told[name]) for name in told],
    }


def _print_check(
    terminal: Terminal, found: dict[str, Any], schema: str, source: str | None, related: bool = False
) -> None:
    from rich.text import Text

    from weft.cli import summary

    rows = []
    for column in found["columns"]:
        missing, outside = "yes" if column["missing"] else "", column["outside"] if column["modelled"] else ""
        marks = Text(", ".join(column["from_data"]), style="bold yellow")
        rows.append((column["name"], column["kind"], column["type"], _describe_codes(column), missing, outside, marks))
    table = summary.make_table(("column", "kind", "type", "codes", "missing", "outside", "from data"), rows, right=[3])
    protects = (
        "one row" if found["unit"] is None else f"all rows of one {found['unit']}, up to {found['rows_per_unit']}"
    )
    facts = {"whole domain": f"10^{found['log10_domain']:.1f} cells"} | ({} if related else {"protects": protects})
    named = source and (without_credentials(source) or source)
    matches = [_render_line("✓", "green", f"names and types match {named}; no row was read")] if named else []
    terminal.show(_render_verdict(schema, found["columns"]), *matches, table, summary.render_facts(facts))
    if found["rules"]:
        rules = [(rule["rule"], rule["form"], rule["rows"]) for rule in found["rules"]]
        shown = summary.make_table(("rule", "becomes", "rows that break it"), rules)
        shown.columns[0].no_wrap = False
        terminal.show(shown)
    if found["found_privately"]:
        told = ", ".join(found["found_privately"])
        terminal.show(
            _render_line("!", "yellow", f"not described, so each run discovers them for a share of its budget: {told}")
        )
    for warning in found["warnings"]:
        terminal.warn(warning)


def _describe_codes(column: Mapping[str, Any]) -> str:
    if column["codes"] is None:
        return "computed" if column["modelled"] else "made anew"
    grouped = column["attributes"] and column["name"] not in column["attributes"]
    return f"{column['codes']:,}" + (", in a group" if grouped else "")


def _render_verdict(schema: str, columns: Sequence[Mapping[str, Any]]) -> RenderableType:
    marks = [len(column["from_data"]) for column in columns if column["from_data"]]
    if not marks:
        return _render_line("✓", "green", f"{schema} is valid")
    facts, places = format_count(sum(marks), "fact"), format_count(len(marks), "column")
    told = f"{facts} in {places} {'is' if sum(marks) == 1 else 'are'} still to be reviewed before synth"
    return _render_line("!", "yellow", f"{schema} is valid, but {told}")


def _render_line(sign: str, colour: str, text: str) -> RenderableType:
    from rich.text import Text

    return Text.assemble((f"{sign} ", f"bold {colour}"), (text, "bold"))


def _write_draft(drafted: Draft, out: Path, source: str | list[str], force: bool) -> None:
    """Write the long value lists of a draft to a folder next to it, then the draft."""
    from weft.io.atomic_files import stage_files

    folder = out.with_name(f"{out.stem}.values")
    text, lists = drafted.apart(folder.name)
    targets = [folder / name for name in lists]
    for target in targets:
        _check_free(target, force)
    if targets:
        folder.mkdir(exist_ok=True)
        check_files({"the private table": source}, {f"the values {target.name}": target for target in targets})
        with stage_files(*targets) as files:
            for file, values in zip(files, lists.values(), strict=True):
                file.write_text("\n".join(values) + "\n", encoding="utf-8", newline="")
    with stage_files(out) as (file,):
        file.write_text(text, encoding="utf-8")


def _check_free(out: Path, force: bool) -> None:
    """Raise OutputError rather than replace a schema that may have been reviewed."""
    if out.is_file() and not force:
        raise OutputError(f"{out} already exists and may have been reviewed. Choose another name, or pass --force.")


def _arrow_schema(schema: Schema, source: str | None, dialect: Dialect) -> pa.Schema:
    from weft.drafting.draft import source_schema
    from weft.io.text_to_types import csv_arrow_schema

    if source is None:
        dialect.check((), "without a table")
        return csv_arrow_schema(schema)
    return source_schema(schema, source, dialect)
