"""`weft budget`: the lifetime budget of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.terminal import Terminal
from weft.display import format_count

if TYPE_CHECKING:
    from weft.privacy.lifetime import State

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Manage a lifetime budget: one file that limits the total privacy loss of all runs on a table.",
)

BudgetFile = Annotated[str, typer.Argument(metavar="FILE", help="The lifetime budget, for example clinic.budget.")]

WIDTH = 40


@app.command()
def create(
    file: BudgetFile,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Maximum privacy loss of all runs together.")],
    delta: Annotated[
        float,
        typer.Option(
            help="Small probability added to the epsilon bound. Choose less than 1 / number of people; 0 for pure."
        ),
    ] = 1e-6,
    table: Annotated[str, typer.Option(metavar="NAME", help='Name of the table, for example "patients 2024".')] = "",
    neighbours: o.Neighbours = "add-remove",
    accounting: Annotated[
        Literal["gaussian", "zcdp", "pure"] | None,
        typer.Option(
            help="How costs add up: gaussian (least noise for most methods), zcdp (cheaper for privbayes and "
            "pb-pgm), or pure, which requires delta 0."
        ),
    ] = None,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Create the lifetime budget of a table, once, before its first run.

    All runs that name it with --budget are charged to it, and are refused when it is exhausted.

    \b
    [bold]Examples[/bold]
      weft budget create clinic.budget --epsilon 3 --delta 1e-6 --table "patients 2024"
      weft synth stays.csv -s stays.toml -e 1 --budget clinic.budget -o synthetic.csv
      weft budget show clinic.budget
    """
    terminal = Terminal(as_json, debug=debug)
    with guard_command(terminal):
        from weft.privacy import Budget, Lifetime

        budget = Budget(epsilon=epsilon, delta=delta)
        lifetime = Lifetime.create(Path(file), budget, table=table, accounting=accounting, relation=neighbours)
        _print_state(terminal, Path(file), lifetime.state())


@app.command()
def show(file: BudgetFile, as_json: o.AsJson = False, debug: o.Debug = False) -> None:
    """Show how much of a lifetime budget is spent and left, and the cost of each run.

    \b
    [bold]Examples[/bold]
      weft budget show clinic.budget
      weft budget show clinic.budget --json
    """
    terminal = Terminal(as_json, debug=debug)
    with guard_command(terminal):
        from weft.privacy import Lifetime

        _print_state(terminal, Path(file), Lifetime(file).state())


@app.command()
def release(
    file: BudgetFile,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's identifier, as shown by `weft budget show`.")],
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Release the budget that a run has reserved and will not spend.

    A run does this itself when it ends, and for a run killed on this machine it happens automatically.
    Use this for a run that ended on another machine, in another container, or before a restart.

    \b
    [bold]Example[/bold]
      weft budget release clinic.budget 3f9a61d2c4b80e57
    """
    terminal = Terminal(as_json, debug=debug)
    with guard_command(terminal):
        from weft.privacy import Lifetime

        lifetime = Lifetime(file)
        lifetime.end(run)
        _print_state(terminal, Path(file), lifetime.state())


def _print_state(terminal: Terminal, file: Path, state: State) -> None:
    terminal.answer(_describe_state(state))
    if terminal.json:
        return
    from weft.cli import summary
    from weft.privacy import Budget, at_most

    named = state.facts["table"] or file
    protects = "unknown before the first run" if state.protects is None else f"one {state.protects}"
    terminal.show(
        summary.render_headline(f"Lifetime budget of {named}"),
        summary.render_facts(
            {
                "allowed": f"epsilon {at_most(state.facts['epsilon'])} at delta {state.facts['delta']:g} for all runs "
                "together, even if later runs depend on earlier results",
                "protects": f"{protects} ({state.facts['relation']} neighbours)",
                **_describe_earlier(state),
                "spent": f"{_draw_bar(state)} {_format_cost_share(state.spent, state)}",
                **({"held": f"{_format_cost_share(state.held, state)} reserved by active runs"} if state.held else {}),
                "left": f"{_format_cost_share(state.left, state)}; {_describe_remainder(state)}",
            }
        ),
    )
    if not state.runs:
        return
    heads, rows = ("run", "begun", "of", "method", "allowed", "questions", "share of the lifetime"), []
    for each in state.runs.values():
        facts, share = each.facts, _format_cost_share(each.spent, state)
        told = [facts["time"], *(str(facts.get(name, "")) for name in ("source", "method"))]
        share += "" if each.ended or not each.held else " (under way)"
        rows.append((each.run, *told, str(Budget.from_dict(facts["budget"])), str(each.charges), share))
    terminal.show(summary.make_table(heads, rows, right=(5, 6)))


def _describe_earlier(state: State) -> dict[str, str]:
    if (past := state.facts.get("earlier")) is None:
        return {}
    spent = f"epsilon {past['epsilon']:.4g} at delta {past['delta']:.3g}, by {format_count(past['runs'], 'run')}"
    return {"earlier": f"{spent} before this budget; the shares below are of the rest"}


def _describe_state(state: State) -> dict[str, Any]:
    return {
        **{key: state.facts[key] for key in ("table", "epsilon", "delta", "accounting", "relation")},
        "protects": state.protects,
        "earlier": state.facts.get("earlier"),
        "spent": state.spent / state.capacity,
        "held": state.held / state.capacity,
        "left": state.left / state.capacity,
        "affordable_epsilon": _compute_affordable_epsilon(state),
        "runs": [
            {
                "run": run.run,
                **{key: run.facts.get(key) for key in ("time", "source", "method", "budget", "accounting", "unit")},
                "charges": run.charges,
                "spent": run.spent / state.capacity,
                "ended": run.ended,
            }
            for run in state.runs.values()
        ],
    }


def _compute_affordable_epsilon(state: State) -> float:
    """Return the maximum epsilon of one more run at the lifetime budget's delta."""
    from weft.privacy.filters import find_affordable_epsilon

    return find_affordable_epsilon(state.left, state.budget, state.filter, state.filter)


def _describe_remainder(state: State) -> str:
    most = _compute_affordable_epsilon(state)
    return f"enough for one run of epsilon {most:g} at delta {state.facts['delta']:g}" if most else "nothing more"


def _draw_bar(state: State) -> str:
    done = round(WIDTH * min(1.0, state.spent / state.capacity))
    held = round(WIDTH * min(1.0, (state.spent + state.held) / state.capacity)) - done
    return "█" * done + "▒" * held + "░" * (WIDTH - done - held)


def _format_cost_share(cost: float, state: State) -> str:
    return f"{cost / state.capacity:.1%}"
