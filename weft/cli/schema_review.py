"""`weft schema review`: step through the facts that a draft read from private rows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.terminal import Terminal
from weft.display import format_count
from weft.errors import OutputError, SchemaError

if TYPE_CHECKING:
    from weft.drafting.review import Fact, Review

Flags = tuple[list[str] | None, list[str] | None, list[str] | None, dict[str, Any]]
"""Facts to accept, facts to make private, columns, and given facts."""

_HELP = "[a]ccept, [e]dit, [p]rivate, [s]kip, accept [A]ll of this type, [q]uit"


def review(
    schema: Annotated[str, typer.Argument(metavar="DRAFT", help="A schema with facts still marked from_data.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Reviewed schema. Default: replace the draft.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="FACT", help="Accept facts of this type: kind, missing, range, values, ...; or all."),
    ] = None,
    private: Annotated[
        list[str] | None,
        typer.Option(metavar="FACT", help="Leave facts of this type to discovery: kind, range, values."),
    ] = None,
    column: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Restrict to this column.")] = None,
    bounds: Annotated[
        tuple[str, str] | None, typer.Option("--range", metavar="LOW HIGH", help="Set the column's public range.")
    ] = None,
    values: Annotated[str | None, typer.Option(metavar="A,B,C", help="Set the column's public values.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Set the column's kind.")] = None,
    debug: o.Debug = False,
) -> None:
    """Step through the facts that a draft read from private rows.

    Accepting a fact means: I know this without looking at the rows. A fact that is
    made private is removed, and discovered with noise for a share of the budget.

    \b
    [bold]Examples[/bold]
      weft schema review draft.toml
      weft schema review draft.toml --accept missing --accept kind
      weft schema review draft.toml --column age --range 0 120
    """
    terminal = Terminal(debug=debug)
    with guard_command(terminal):
        path = Path(schema)
        given = _collect_given_facts(bounds, values, kind)
        if given and len(column or []) != 1:
            raise o.UsageError("--range, --values and --kind require exactly one --column")
        files = _list_table_files(path)
        if files and (output is not None or column):
            raise o.UsageError(f"{path} describes several tables: for --column or -o, name the file of one, {files[0]}")
        for each in files or [path]:
            _review_file(terminal, each, Path(output) if output else each, (accept, private, column, given))
        if files:
            _print_marked_keys(terminal, path)


def _list_table_files(path: Path) -> list[Path]:
    """Return the files with the columns of each table that a schema of related tables names."""
    from weft.schema.database import is_database_document

    if not is_database_document(path):
        return []
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["tables"].values()
    files = [path.parent / entry["schema"] for entry in tables if isinstance(entry.get("schema"), str)]
    if not files:
        raise SchemaError(f"{path} names no file with the columns of a table: nothing to review")
    return files


def _print_marked_keys(terminal: Terminal, path: Path) -> None:
    from weft.schema.database import Database

    for table in Database.load(path).tables:
        for fact in table.from_data:
            told = "its key and the links to it" if fact == "key" else "that its rows are public"
            terminal.warn(f"{path}, table {table.name}: {told} were proposed from the rows. If you know this without "
                          "looking at the rows, remove it from from_data")  # fmt: skip


def _review_file(terminal: Terminal, path: Path, out: Path, flags: Flags) -> None:
    from weft.drafting.review import Review

    accept, private, column, given = flags
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"{path}: cannot read the schema") from None
    held = Review(text, str(path), path.parent)
    if held.beside and out.parent.resolve() != path.parent.resolve():
        raise OutputError(f"{path} refers to files in its folder: write {out.name} to the same folder")
    if given or accept or private:
        _by_flags(held, accept or [], private or [], column or [], given)
        _save_review(held, out)
    else:
        _by_hand(terminal, held, column or [], out)
    _print_remaining(terminal, held, out)


def _collect_given_facts(bounds: tuple[str, str] | None, values: str | None, kind: str | None) -> dict[str, Any]:
    facts = {
        "kind": kind,
        "range": None if bounds is None else [_parse_scalar(end) for end in bounds],
        "values": None if values is None else _parse_values(values),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _by_flags(held: Review, accept: list[str], private: list[str], columns: list[str], given: dict[str, Any]) -> None:
    from weft.drafting.review import MEANINGS

    if given:
        held.edit(columns[0], **given)
    for name in (*accept, *private):
        if name not in (*MEANINGS, "all") or (name == "all" and name in private):
            raise o.UsageError(f"{name} is not a type of fact; expected {', '.join(MEANINGS)}, or --accept all")
    for fact in held.facts(private, columns) if private else []:
        if fact.private:
            held.make_private(fact)
    for fact in held.facts([] if "all" in accept else accept, columns) if accept else []:
        held.accept(fact)


def _by_hand(terminal: Terminal, held: Review, columns: list[str], out: Path) -> None:
    from rich.text import Text

    skipped: set[tuple[str, str]] = set()
    terminal.show(
        Text("Accepting a fact means: I know this without looking at the rows."),
        Text("Private: it is removed from the schema and discovered with noise, for a share of the budget."),
    )
    while left := [f for f in held.facts(columns=columns) if (f.column, f.name) not in skipped]:
        fact = left[0]
        _print_fact(terminal, fact, len(left))
        answer = typer.prompt(_HELP if fact.private else _HELP.replace("[p]rivate, ", ""), default="s").strip()
        if answer in ("q", "quit"):
            return
        if answer in ("s", "skip"):
            skipped.add((fact.column, fact.name))
            continue
        try:
            _apply_answer(held, fact, answer, left)
        except SchemaError as fault:
            terminal.warn(str(fault))
            continue
        _save_review(held, out)  # after each step, so that an interruption loses nothing


def _apply_answer(held: Review, fact: Fact, answer: str, left: list[Fact]) -> None:
    if answer in ("a", "accept"):
        held.accept(fact)
    elif answer in ("A", "all"):
        for same in left:
            if same.name == fact.name:
                held.accept(same)
    elif answer in ("p", "private"):
        held.make_private(fact)
    elif answer in ("e", "edit"):
        held.edit(fact.column, **{fact.name: _prompt_fact(fact)})
    else:
        raise SchemaError(f"{answer} is not a valid answer: {_HELP}")


def _prompt_fact(fact: Fact) -> Any:
    if fact.name == "range":
        return [_parse_scalar(typer.prompt("lowest")), _parse_scalar(typer.prompt("highest"))]
    if fact.name == "values":
        return _parse_values(typer.prompt("values, separated by commas"))
    if fact.name == "special":
        return _parse_values(typer.prompt("special values, separated by commas"))
    if fact.name == "missing":
        word = typer.prompt("true, false, or the markers, separated by commas")
        return {"true": True, "false": False}.get(word, _parse_values(word))
    return _parse_scalar(typer.prompt(fact.name))


def _print_fact(terminal: Terminal, fact: Fact, left: int) -> None:
    from rich.text import Text

    from weft.drafting.review import MEANINGS

    said = "nothing is stated yet" if fact.value is None else _shorten_value(fact.value)
    terminal.show(
        Text(f"\n{fact.column}, {fact.kind} ({left} to go)", style="bold"),
        Text(f"  {fact.name}: {said}\n  {MEANINGS.get(fact.name, 'a fact about this column')}"),
    )


def _shorten_value(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    shown = ", ".join(map(str, value[:12]))
    return shown if len(value) <= 12 else f"{shown}, ... ({format_count(len(value), 'value')})"


def _print_remaining(terminal: Terminal, held: Review, out: Path) -> None:
    from rich.text import Text

    left = held.facts()
    if not left:
        terminal.show(Text(f"✓ {out}: nothing is left to review; next: weft schema check {out}"))
        return
    places = format_count(len({fact.column for fact in left}), "column")
    sorts = ", ".join(dict.fromkeys(fact.name for fact in left))
    terminal.show(Text(f"! {out}: {format_count(len(left), 'fact')} in {places} left to review ({sorts})"))


def _save_review(held: Review, out: Path) -> None:
    from weft.io.atomic_files import check_writable, stage_files

    check_writable(out)
    with stage_files(out) as (file,):
        file.write_text(held.text, encoding="utf-8")


def _parse_values(text: str) -> list[Any]:
    found = [_parse_scalar(word.strip()) for word in text.split(",") if word.strip()]
    return found if len({type(value) for value in found}) == 1 else [str(value) for value in found]


def _parse_scalar(text: str) -> Any:
    """Return a number if the text round-trips as one, else the text: 007 stays text."""
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        if str(number) == text or (read is float and text.lstrip("+-")[:1].isdigit() and "." in text):
            return number
    return text
