"""What `synth`, `fit` and `demo` share: from the options of a command line to a fitted synthesizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from weft.cli import options as o
from weft.cli.options import UsageError, Who
from weft.cli.terminal import Terminal
from weft.cli.textfiles import TextFile
from weft.errors import BudgetError
from weft.files import beside
from weft.progress import Listener, stage
from weft.release.atomic import check_appendable, check_writable
from weft.release.paths import JOURNAL_ENDING, Source, check_apart

if TYPE_CHECKING:
    from weft.reading.dialect import Dialect
    from weft.synthesizer import Synthesizer

MOST_INSECURE = 1000.0
"""Largest epsilon that can be spent on rows that are public."""

LARGE_EPSILON = 10.0
"""Past this the guarantee is there but says little."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One fit as the command line asks for it."""

    source: str | list[str]
    """The private table: one name, or those of several files."""
    schema: str | None
    epsilon: float
    delta: float
    journal: Path
    budget_file: Path | None = None
    """The table's lifetime budget."""
    wanted: dict[str, Any] = field(default_factory=dict)
    """What is to be written, for the checkpoint (`weft.cli.resume`)."""
    method: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    rows: int | None = None
    """Rows wanted: an option of recipes that must know before they look."""
    neighbours: Literal["add-remove", "replace-one"] = "add-remove"
    discover: float = 0.1
    """Share of the budget for what the schema does not state."""
    who: Who = field(default_factory=Who)
    """Who is protected, where no schema says so."""
    engine: Literal["auto", "memory", "stream"] = "auto"
    memory: str | None = None
    """How much memory may be taken."""
    seed: int | None = None
    noise_seed: int | None = None
    trust_data_for_schema: bool = False
    dialect: Dialect | None = None
    """How a text file is written."""
    insecure: bool = False
    """Whether the rows are public, so that an epsilon that protects nobody may be spent on them."""

    def check(self, terminal: Terminal, targets: Mapping[str, Path]) -> None:
        """Refuse, before anything is read or spent, what could not be finished; warn of what promises little.

        `targets` are the files to be written, by what they are.
        """
        inputs: dict[str, Source | None] = {
            "the private table": self.source,
            "the schema": None if self.schema is None else Path(self.schema),
            "the lifetime budget": self.budget_file,
            "the public table": self.options.get("public") or None,
            "the plan of marginals": self.options["marginals"]
            if isinstance(self.options.get("marginals"), Path)
            else None,
        }
        check_files(inputs, targets, {"the journal": self.journal})
        self._check_epsilon()
        if self.epsilon > LARGE_EPSILON:
            from weft.privacy.accounting import growth

            terminal.warn(
                f"epsilon {self.epsilon:g} promises little: in the worst case somebody's odds of guessing right "
                f"about a person rise by a factor of e^{self.epsilon:g}, which is nearly {growth(self.epsilon)}. "
                "1 is strong; up to 10 is in use."
            )

    def _check_epsilon(self) -> None:
        from weft.privacy.budget import LARGEST_EPSILON

        if self.epsilon > LARGEST_EPSILON and not (self.insecure and self.epsilon <= MOST_INSECURE):
            remedy = f"up to {MOST_INSECURE:g} with --insecure, if the rows are public"
            raise BudgetError(
                f"epsilon {self.epsilon:g} protects nobody: choose one of at most {LARGEST_EPSILON:g}, or {remedy}."
            )

    def fit(self, listener: Listener, hold: Callable[[Synthesizer], None]) -> Synthesizer:
        """Learn the table; `hold` is told of the synthesizer before it has cost anything."""
        synthesizer = self.synthesizer(listener)
        hold(synthesizer)
        return synthesizer.fit(self.source, self.schema, listener=listener, **self.who.settings)

    def synthesizer(self, listener: Listener) -> Synthesizer:
        """Return a synthesizer with these settings; nothing is read or spent."""
        with stage(listener, "load"):  # the libraries take a second or two
            from weft.methods import AUTO, takes
            from weft.privacy import Budget
            from weft.synthesizer import Synthesizer

        for name in self.options:
            if name in Synthesizer().get_params():
                raise UsageError(f"--option {name}: it is no option of a method. See `weft synth --help`.")
        if "rows" in self.options:
            raise UsageError("--option rows: write --rows N")
        synthesizer = Synthesizer(
            self.epsilon,
            self.delta,
            neighbours=self.neighbours,
            engine=self.engine,
            memory=self.memory,
            journal=self.journal,
            budget_file=self.budget_file,
            checkpoint=None if self.source == "-" else checkpoint_beside(self.journal),
            trust_data_for_schema=self.trust_data_for_schema,
            discover=self.discover,
            budget=Budget(epsilon=self.epsilon, delta=self.delta, insecure=True) if self.insecure else None,
            seed=self.seed,
            noise_seed=self.noise_seed,
            dialect=self.dialect,
            method=AUTO if self.method is None else self.method,
            **self.options,
        )
        synthesizer.wanted = self.wanted
        if self.rows is not None and takes(synthesizer.method, "rows"):
            synthesizer.set_params(rows=self.rows)
        return synthesizer

    @property
    def incomplete(self) -> bool:
        """Whether something is left to be found privately."""
        if self.schema is None:
            return True
        from weft.schema import Schema

        return Schema.load(self.schema).incomplete

    def asked(self, terminal: Terminal) -> Request:
        """Return the request with an answer to who is protected, where only a person can give it.

        SchemaError, with both commands, where nobody sits at the terminal.
        """
        if self.schema is not None or self.who.unit is not None:
            return self
        from weft.discovery import possible_units

        likely = possible_units(self.source, *([] if self.dialect is None else [self.dialect]))
        if not likely or not terminal.asks:
            return self  # the fit goes on, or refuses with the remedy
        told = " or ".join(f'"{name}"' for name in likely)
        terminal.say(f"{told} comes back in several rows: one person may have several of them.")
        for name in likely:
            if typer.confirm(f'Does "{name}" tell whose row it is?', err=True):
                return replace(self, who=replace(self.who, unit=name))
        if typer.confirm("Is every row another person's?", err=True):
            return replace(self, who=replace(self.who, unit=False))
        raise UsageError("say who is protected: --unit COLUMN, or --one-row-per-person")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a command that learns a private table."""

    source: o.Input
    epsilon: o.Epsilon
    schema: o.SchemaFile = None
    delta: o.Delta = 1e-5
    method: o.Method = None
    preset: o.Preset = None
    option: o.Options = None
    marginals: o.Marginals = None
    public: o.Public = None
    neighbours: o.Neighbours = "add-remove"
    discover: o.Discover = 0.1
    protected: o.Protected
    journal: o.Journal = None
    budget: o.LifetimeBudget = None
    seed: o.Seed = None
    noise_seed: o.NoiseSeed = None
    engine: o.Engine = "auto"
    memory: o.Memory = None
    text: TextFile
    trust_data_for_schema: o.TrustDataForSchema = False
    insecure: o.Insecure = False

    def request(self, journal: Path, rows: int | None) -> Request:
        """Return what is asked for, read and checked one by one."""
        return Request(
            source=one_or_several(self.source),
            dialect=self.text.dialect,
            schema=self.schema,
            epsilon=self.epsilon,
            delta=self.delta,
            journal=journal,
            budget_file=None if self.budget is None else Path(self.budget),
            method=self.method,
            options=o.with_public(
                o.with_plan(o.with_preset(o.parse_options(self.option), self.preset), self.marginals), self.public
            ),
            rows=rows,
            neighbours=self.neighbours,
            discover=self.discover,
            who=self.protected.who(self.schema),
            engine=self.engine,
            memory=self.memory,
            seed=self.seed,
            noise_seed=self.noise_seed,
            trust_data_for_schema=self.trust_data_for_schema,
            insecure=self.insecure,
        )


def one_or_several(source: list[str]) -> str | list[str]:
    """Return the name of a table, or those of the files that are one together."""
    return source if len(source) > 1 else source[0]


def check_files(
    inputs: Mapping[str, Source | None], outputs: Mapping[str, Path], records: Mapping[str, Path] | None = None
) -> None:
    """Refuse outputs that cannot be written, or that would destroy what is read or kept (`weft.release.paths`)."""
    check_apart(inputs, outputs, records)
    for target in outputs.values():
        check_writable(target)
    for record in (records or {}).values():
        check_appendable(record)


def checkpoint_beside(journal: Path) -> Path:
    """Return the name after which the checkpoint of a run is called: its journal's."""
    return journal.with_name(journal.name.removesuffix(JOURNAL_ENDING) + ".checkpoint")


def journal_beside(out: Path | None, asked: str | None) -> Path:
    """Return where spending is recorded: where asked, beside the output, or in this folder."""
    if asked is not None:
        return Path(asked)
    if out is None or not out.name:  # a folder, which is refused in better words
        return Path(f"weft{JOURNAL_ENDING}")
    return beside(out, JOURNAL_ENDING)
