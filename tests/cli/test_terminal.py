from __future__ import annotations

import io

import pytest
from rich.console import Console

from weft.cli.options import UsageError, parse_options
from weft.cli.terminal import Bars, Terminal, _bars
from weft.progress import silence, stage


def console(**settings: object) -> Console:
    return Console(file=io.StringIO(), width=100, **settings)


def test_every_stage_has_a_bar() -> None:
    screen = console(force_terminal=True)
    bars = _bars(screen)
    listener = Bars(bars)
    try:
        with stage(listener, "count", total=4) as work:
            work.advance(2, note="so far")
            assert bars.tasks[0].percentage == 50
        with stage(listener, "guess"):
            assert not bars.tasks[1].finished
        with stage(listener, "count", total=4) as work:  # the same stage again: its bar starts anew
            assert bars.tasks[0].percentage == 0
    finally:
        bars.stop()
    assert [task.description for task in bars.tasks] == ["count", "guess"]
    assert all(task.finished for task in bars.tasks)
    shown = screen.file.getvalue()
    assert "count" in shown
    assert "guess" in shown


def test_nobody_watches_no_bars() -> None:
    for terminal in (Terminal(json=True), Terminal(quiet=True), Terminal()):
        with terminal.progress() as listener:
            assert listener is silence


def test_an_unused_display_draws_nothing() -> None:
    screen = console(force_terminal=True)
    bars = _bars(screen)
    Bars(bars)
    bars.stop()
    assert screen.file.getvalue().strip() == ""


def test_stage_names_are_not_markup() -> None:
    screen = console(force_terminal=True, color_system=None)
    bars = _bars(screen)
    with stage(Bars(bars), "[red]count[/red]"):
        pass
    bars.stop()
    assert "[red]count[/red]" in screen.file.getvalue()


def test_options_are_json_or_text() -> None:
    assert parse_options(None) == {}
    assert parse_options(["a=1", "b=0.5", "c=true", "d=text", "e=x=y", "f=", "g=[1, 2]"]) == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": "text",
        "e": "x=y",
        "f": "",
        "g": [1, 2],
    }
    for wrong in ("a", "=1", "a b=1"):
        with pytest.raises(UsageError):
            parse_options([wrong])
