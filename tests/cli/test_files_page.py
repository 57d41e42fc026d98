"""Every command and example of the page about files runs."""

import gzip
import re
import shlex
from pathlib import Path

import pytest
import xlsxwriter
from typer.testing import CliRunner

from weft.cli import app
from weft.io.dialect import Dialect
from weft.io.formats import all_formats, list_writable_endings

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
COMMANDS = [line[2:] for line in re.findall(r"^\$ .*$", PAGE, re.MULTILINE)]
AGE = '[columns.age]\nkind = "integer"\nrange = [0, 9]\nmissing = true\n'
SCHEMA = f'{AGE}\n[columns.cost]\nkind = "real"\nrange = [0, 50]\n'
GERMAN = SCHEMA.replace("age", "Größe").replace("cost", "Preis").replace("[columns.Größe]", '[columns."Größe"]')


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(i % 10, i % 50) for i in range(200)]
    plain = "age,cost\n" + "".join(f"{age},{cost}.5\n" for age, cost in rows)
    german = "Größe;Preis\n" + "".join(f"{age or 'k.A.'};{cost},5\n" for age, cost in rows)
    for name in ("north.csv", "south.csv", "regions/one.csv", "regions/two.csv"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(plain)
    Path("north.csv.gz").write_bytes(gzip.compress(plain.encode()))
    Path("german.csv").write_text(german, encoding="latin-1")
    Path("bare.tsv").write_text("".join(f"{age}\t{cost}.5\n" for age, cost in rows))
    with xlsxwriter.Workbook("clinic.xlsx") as book:
        book.add_worksheet("cover").write(0, 0, "about this workbook")
        sheet = book.add_worksheet("patients")
        for place, row in enumerate([("age", "cost"), *rows]):
            sheet.write_row(place, 0, row)
    Path("stays.toml").write_text(SCHEMA)
    Path("german.toml").write_text(GERMAN)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command, world):
    piped = Path("north.csv").read_bytes() if "|" in command else None
    words = shlex.split(command.partition("|")[2] or command)[1:]
    result = CliRunner().invoke(app, [*words, *(["-m", "independent"] if words[0] == "synth" else [])], input=piped)
    assert result.exit_code == 0, result.output
    assert Path(words[words.index("-o") + 1]).is_file()


def test_the_python_runs(world):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    space = {}
    exec(compile(code, "files.md", "exec"), space)
    assert space["made"].column_names == ["Größe", "Preis"]


def test_the_page_names_every_option_and_ending():
    for name in Dialect.__dataclass_fields__:
        assert f"{name}=" in PAGE
    released = PAGE[PAGE.index("## Output formats") :]
    assert {ending.split(".")[1] for ending in list_writable_endings()} <= set(re.findall(r"`\.(\w+)`", released))
    assert {"csv", "jsonl", "parquet", "arrow", "xlsx", "sav", "dta", "sas7bdat"} <= {
        e[1:] for form in all_formats() for e in form.endings
    }


@pytest.mark.parametrize("command", ["synth", "fit"])
def test_what_a_text_file_is_not_spends_nothing(command, world):
    Path("rows.csv").write_text('{"S3CRET": 1}\n')
    result = CliRunner().invoke(app, [command, "rows.csv", "-s", "stays.toml", "-e", "1", "-o", "made.weft.csv"])
    assert result.exit_code == 4 and "JSON" in result.output and "S3CRET" not in result.output
    assert not Path("made.weft.csv").exists()


def test_a_sheet_where_there_is_none_spends_nothing(world):
    for words in (["synth", "-o", "made.csv", "-e", "1"], ["schema", "check", "--json"]):
        for source, sheet, told in (("north.csv", "2", "leave it out"), ("clinic.xlsx", "3", "2 sheets")):
            table = [source, "-s", "stays.toml"] if words[0] == "synth" else ["stays.toml", source]
            result = CliRunner().invoke(app, [*words, *table, "--sheet", sheet])
            assert result.exit_code == 4 and told in " ".join(result.output.split()), result.output
            assert "patients" not in result.output
    assert not {path.name for path in Path().glob("made*")}
    assert CliRunner().invoke(app, ["schema", "check", "stays.toml", "--sheet", "2"]).exit_code == 4
