"""`weft methods`: list the methods and explain their options."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.terminal import Terminal


def methods(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Method whose options are explained. Default: list all methods."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """List the methods, or explain the options of one.

    \b
    [bold]Examples[/bold]
      weft methods
      weft methods bsg
      weft synth stays.csv -s stays.toml -e 1 -m privsyn --preset paper -o out.csv
      weft fit stays.csv -s stays.toml -e 1 -m independent -o stays.weft
      weft fit stays.csv -s stays.toml -e 1 --option accounting=pure -o stays.weft
      weft synth stays.csv -s stays.toml -e 1 -m privsyn \\
        --option 'marginals=[["age", "ward"], ["ward", "cost"]]' -o out.csv
    """
    terminal = Terminal(as_json)
    with guard_command(terminal):
        from weft.methods import METHODS, resolve_method_name

        if name is None:
            listed = {each: _describe_method(each) for each in METHODS}
            terminal.answer(listed)
            if not as_json:
                _print_methods(terminal, listed)
        else:
            facts = _describe_method(resolve_method_name(name))
            terminal.answer(facts)
            if not as_json:
                _print_options(terminal, facts)


def _describe_method(name: str) -> dict[str, Any]:
    from importlib import import_module

    from weft.methods import BEST, METHODS, list_differences
    from weft.methods.common.options import convert_to_plain, options_of
    from weft.privacy import find_accounting

    module, recipe = METHODS[name]
    made = getattr(import_module(module), recipe)
    options = options_of(made)
    paper = None if made.paper is None else {name: convert_to_plain(value) for name, value in made.paper.items()}
    return {
        "name": name,
        "about": (made.__doc__ or "").strip().split("\n")[0],
        "default": name == BEST,
        "noise": find_accounting(made().accounting).noise,
        "options": {option.name: option.default for option in options},
        "paper": paper,
        "differences": [] if paper is None else list_differences(name),
        "meanings": {option.name: option.meaning for option in options},
        "bounds": {option.name: [option.bounds.low, option.bounds.high] for option in options if option.bounds},
    }


def _print_methods(terminal: Terminal, listed: dict[str, dict[str, Any]]) -> None:
    from rich.text import Text

    from weft.cli import summary
    from weft.methods import METHODS

    rows: list[tuple[str | Text, ...]] = []
    first: dict[tuple[str, str], str] = {}
    for name, facts in listed.items():
        same = first.setdefault(METHODS[name], name)
        about = facts["about"] if same == name else f"Another name for {same}."
        title = Text(name + (" (default)" if facts["default"] else ""), style="bold cyan")
        rows.append((title, about, facts["noise"].split(",")[0]))
    terminal.show(
        summary.make_table(("method", "what it does", "noise"), rows),
        summary.render_note(
            "`weft methods NAME` explains the options of a method; --method NAME --option KEY=VALUE sets them."
        ),
    )


def _print_options(terminal: Terminal, facts: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.text import Text

    from weft.cli import summary

    paper, rows = facts["paper"], []
    heads = "option", "default", *(() if paper is None else ("paper",)), "range", "what it means"
    for option, meaning in facts["meanings"].items():
        ends = facts["bounds"].get(option)
        between = "" if ends is None else f"{_format_number(ends[0])} to {_format_number(ends[1])}"
        known = (facts["options"], paper or {})[: len(heads) - 3]
        told = [_format_option_value(values[option]) if option in values else "" for values in known]
        rows.append((Text(option, style="bold cyan"), *told, between, meaning))
    terminal.show(
        summary.render_heading(facts["name"] + (" (the default)" if facts["default"] else "")),
        escape(facts["about"]),
        f"Noise: {facts['noise']}.",
        *([] if paper is None else ["--preset paper uses the column paper, and the defaults where it is empty."]),
        "",
        summary.make_table(heads, rows),
        *([] if paper is None else ["", "With --preset paper, these differences from the paper remain:"]),
        *(f"- {escape(each)}" for each in facts["differences"]),
    )


def _format_number(end: float) -> str:
    return f"{end:,}" if isinstance(end, int) else f"{end:g}"


def _format_option_value(value: Any) -> str:
    """Return a value in the form accepted after KEY=."""
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)
