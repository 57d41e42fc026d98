"""The page about plans is executed: its commands run in order, and every plan on it fits the demo's table."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner
from weft_lab.fire import fire_plan

from weft import MarginalPlan
from weft.cli import app
from weft.encoding import Codec
from weft.hospital import hospital, hospital_schema
from weft.schema import Schema
from weft.synthesis.marginal_plan import compile_plan, extend_schema

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "marginals.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_plan_fits(text, tmp_path):
    schema, rows = Schema.from_toml(hospital_schema()), hospital(rows=50)
    codes = schema.column("diagnosis").values
    (tmp_path / "chapters.csv").write_text("diagnosis,ward\n" + "".join(f"{code},surgery\n" for code in codes))
    (tmp_path / "plan.toml").write_text(text)
    plan = MarginalPlan.load(tmp_path / "plan.toml").at(2.0)
    compile_plan(plan, Codec(extend_schema(schema, plan), rows.schema))


def test_the_commands_run_in_order(tmp_path, monkeypatch):
    import pyarrow.csv

    monkeypatch.chdir(tmp_path)
    Path("weft-demo").mkdir()
    Path("weft-demo/hospital.toml").write_text(hospital_schema())
    pyarrow.csv.write_csv(hospital(rows=1000), "weft-demo/hospital.csv")
    lines = "".join(blocks("console")).splitlines()
    assert len(lines) == 3
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line.removeprefix("$ weft ")))
        assert result.exit_code == 0, (line, result.output)


def test_the_plan_for_the_fire_calls_fits_their_public_domain():
    from weft_lab.datasets import datasets
    from weft_lab.fire import WIDE

    from weft.io.text_to_types import csv_arrow_schema

    for wide in ({}, WIDE):  # as the AIM paper's authors coded it, and with all columns
        schema = Schema.from_domain({**datasets()["fire"].sizes, **wide})
        for epsilon in (0.1, 1.0, 10.0):
            plan = fire_plan([column.name for column in schema.columns]).at(epsilon)
            known = extend_schema(schema, plan)
            made = compile_plan(plan, Codec(known, csv_arrow_schema(known)))
            assert len(made.arrangement.fills) >= 9 and len(made.options["marginals"]) > 25


def test_the_plan_for_the_census_reads():
    plan = MarginalPlan.load(ROOT / "lab" / "weft_lab" / "plans" / "acs_pums2018_west.toml")
    assert plan == MarginalPlan.from_toml(plan.to_toml()) and plan.measured > 90
