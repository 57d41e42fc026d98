from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

from weft.cli import app
from weft.cli.shared_options import UsageError, parse_options
from weft.cli.summary import render_facts
from weft.cli.terminal import Bars, Terminal, _make_console, _make_progress_bars
from weft.progress import ignore_event, report_stage


def console(**settings: object) -> Console:
    return Console(file=io.StringIO(), width=100, **settings)


def test_every_stage_has_a_bar() -> None:
    screen = console(force_terminal=True)
    bars = _make_progress_bars(screen)
    listener = Bars(bars)
    try:
        with report_stage(listener, "count", total=4) as work:
            work.advance(2, note="so far")
            assert bars.tasks[0].percentage == 50
        with report_stage(listener, "guess"):
            assert not bars.tasks[1].finished
        with report_stage(listener, "count", total=4) as work:  # the same stage again: its bar starts anew
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
            assert listener is ignore_event


def test_an_unused_display_draws_nothing() -> None:
    screen = console(force_terminal=True)
    bars = _make_progress_bars(screen)
    Bars(bars)
    bars.stop()
    assert screen.file.getvalue().strip() == ""


def test_stage_names_are_not_markup() -> None:
    screen = console(force_terminal=True, color_system=None)
    bars = _make_progress_bars(screen)
    with report_stage(Bars(bars), "[red]count[/red]"):
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


HOSTILE = "\x1b[2J\x1b]52;c;c2VjcmV0\x07\x9b31m\r\u202e\u2066\u2028"
"""Clears the screen, fills the clipboard, goes back to the start of a line, and turns the direction of text."""


def heard(text: str) -> bool:
    """Whether a terminal would obey something in a text."""
    return bool(re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066\u2028]", text))


def test_a_name_cannot_speak_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("typer.confirm", lambda text, **_: sys.stdout.write(text) > 0)
    terminal = Terminal()
    terminal.warn(f"column {HOSTILE}")
    terminal.fail(f"column {HOSTILE}")
    terminal.say(f"column {HOSTILE}")
    terminal.confirm(f"column {HOSTILE}")
    terminal.show(Text(f"column {HOSTILE}"), f"column {HOSTILE}", render_facts({"column": HOSTILE}))
    said = capsys.readouterr()
    assert said.out.count("column") == 4 and said.err.count("column") == 3
    assert not heard(said.out) and not heard(said.err)
    assert "\ufffd[2J" in said.out


def test_styles_and_bars_are_still_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = _make_console(stderr=True)
    screen.file = io.StringIO()
    screen.print(Text("red", style="red"))
    assert "\x1b[31m" in screen.file.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        ["synth", f"{HOSTILE}.csv", "-e", "1", "-o", "out.csv"],
        ["synth", "odd.csv", "-s", f"{HOSTILE}.toml", "-e", "1", "-o", "out.csv"],
        ["synth", "odd.csv", "-e", "1", "--one-row-per-person", "-m", "independent", "-o", "out.csv"],
        ["verify", "a", "b", HOSTILE],
        [f"--{HOSTILE}"],
        ["budget", "show", f"--{HOSTILE}"],
    ],
)
def test_no_command_passes_on_a_hostile_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    odd = HOSTILE.replace("\r", "").replace("\u2028", "")
    Path("odd.csv").write_text(f"{odd}a,{odd}b\n" + "1,x\n2,y\n" * 50)
    done = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "300"}).invoke(app, words)
    assert done.output and not heard(done.stdout) and not heard(done.stderr)
