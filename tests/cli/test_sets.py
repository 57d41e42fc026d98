"""Sets of options: a command shows and takes them one by one."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from weft.cli.shared_options import flatten_options

Size = Annotated[int, typer.Option("--size", "-n")]


@dataclass(frozen=True, kw_only=True)
class Inner:
    loud: Annotated[bool, typer.Option("--loud")] = False


@dataclass(frozen=True, kw_only=True)
class Outer:
    size: Size
    name: Annotated[str | None, typer.Option()] = None
    inner: Inner


def test_a_command_gets_its_sets_whole():
    seen = []

    @flatten_options
    def command(first: Annotated[str, typer.Argument()], last: int = 3, *, outer: Outer) -> None:
        """Do it."""
        seen.append((first, last, outer))

    app = typer.Typer()
    app.command()(command)
    assert CliRunner().invoke(app, ["a", "-n", "2", "--loud"]).exit_code == 0
    assert seen == [("a", 3, Outer(size=2, name=None, inner=Inner(loud=True)))]
    assert CliRunner().invoke(app, ["a"]).exit_code == 2, "an option of a set without a default is required"
    assert "Do it." in CliRunner().invoke(app, ["--help"]).output


def test_two_sets_with_one_name_are_a_mistake_of_ours():
    def command(size: Size = 1, *, outer: Outer) -> None: ...

    with pytest.raises(AssertionError, match="same name"):
        flatten_options(command)
