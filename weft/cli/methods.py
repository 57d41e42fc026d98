"""`weft methods`: what recipes there are."""

from __future__ import annotations

from typing import Any

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.terminal import Terminal


def methods(as_json: o.AsJson = False) -> None:
    """List the methods, with their options.

    \b
    [bold]Examples[/bold]
      weft methods
      weft fit stays.csv -s stays.toml -e 1 -m independent -o stays.weft
      weft fit stays.csv -s stays.toml -e 1 --option accounting=pure -o stays.weft
      weft synth stays.csv -s stays.toml -e 1 -m bsg -n 500 --option omega=9 -o out.csv
    """
    terminal = Terminal(as_json)
    with guard(terminal):
        from dataclasses import MISSING, Field, fields
        from importlib import import_module

        from weft.methods import METHODS

        def default(option: Field[Any]) -> Any:
            if option.default_factory is not MISSING:
                return option.default_factory()
            return "required" if option.default is MISSING else option.default

        found = {name: getattr(import_module(module), recipe) for name, (module, recipe) in METHODS.items()}
        listed: dict[str, dict[str, Any]] = {
            name: {
                "about": (recipe.__doc__ or "").strip().split("\n")[0],
                "options": {option.name: default(option) for option in fields(recipe)},
            }
            for name, recipe in found.items()
        }
        terminal.answer(listed)
        if not as_json:
            from rich import box
            from rich.markup import escape
            from rich.table import Table

            table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
            table.add_column("method", style="bold cyan", no_wrap=True)
            table.add_column("what it does")
            table.add_column("options")
            for name, about in listed.items():
                settings = "\n".join(f"{option}={default}" for option, default in about["options"].items())
                table.add_row(name, escape(about["about"]), escape(settings))
            terminal.show(table)
