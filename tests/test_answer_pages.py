"""The pages on questions and item sets are executed: their commands run where the demo has run, their Python too."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli import app

DOCS = Path(__file__).parents[1] / "docs"


def baskets():
    """What the page on item sets names: the same baskets in three forms, and a list of items."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet
    from weft_lab.itemsets import market

    table = market(400, 30, planted=2)
    rows = table["basket"].to_pylist()
    pa.parquet.write_table(table, "baskets.parquet")
    lines = [(str(i), item) for i, row in enumerate(rows) for item in row]
    pa.csv.write_csv(pa.table({"order": [a for a, _ in lines], "product": [b for _, b in lines]}), "lines.csv")
    names = sorted({item for row in rows for item in row})
    pa.csv.write_csv(pa.table({name: [int(name in row) for row in rows] for name in names[:6]}), "survey.csv")
    Path("products.txt").write_text("\n".join(names))


@pytest.mark.parametrize("page", ["query.md", "itemsets.md"])
def test_commands_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["demo", "--rows", "1000", "-q"]).exit_code == 0
    baskets()
    blocks = re.findall(r"```console\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ weft ")]
    assert lines
    for line in lines:
        result = runner.invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.output)


@pytest.mark.parametrize("page", ["query.md", "itemsets.md"])
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        exec(compile(code, page, "exec"), {})
