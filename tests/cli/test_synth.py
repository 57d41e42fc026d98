from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from weft.io.formats.csv_files import read_csv
from weft.schema import Schema

from .conftest import Weft, command, environment, outputs, table

RELEASED = {"out.csv", "out.card.md", "out.card.json", "out.ledger.jsonl"}


def synth(weft: Weft, *more: object, code: int = 0):
    return weft(
        "synth",
        "visits.csv",
        "--schema",
        "visits.toml",
        "--epsilon",
        1,
        "-m",
        "independent",
        "-o",
        "out.csv",
        "--overwrite",
        *more,
        code=code,
    )


def test_csv_in_csv_out_keeps_columns_and_types(weft: Weft, folder: Path) -> None:
    synth(weft)
    assert outputs(folder) == RELEASED
    schema = Schema.load("visits.toml")
    real, made = read_csv("visits.csv", schema), read_csv("out.csv", schema)
    assert made.schema == real.schema
    assert made["visit"].combine_chunks().value_counts().field("counts").to_pylist() == [1] * len(made)
    assert set(made["town"].to_pylist()) == {"Arras", "Bruges", "Ghent", None}
    assert 0.1 < made["town"].null_count / len(made) < 0.3
    assert 0.15 < made["price"].to_pylist().count(0.0) / len(made) < 0.45


def test_parquet_in_parquet_out_keeps_columns_and_types(weft: Weft) -> None:
    weft("synth", "visits.parquet", "-s", "visits.toml", "-e", 1, "--rows", 321, "-o", "out.parquet")
    made = pa.parquet.read_table("out.parquet")
    assert made.schema.remove_metadata() == table().schema
    assert made.num_rows == 321
    made.validate(full=True)


def test_dictionaries_can_be_written_to_csv(weft: Weft) -> None:
    weft("synth", "visits.parquet", "-s", "visits.toml", "-e", 1, "-o", "out.csv")
    assert read_csv("out.csv", Schema.load("visits.toml")).column_names == table().column_names


def test_a_second_run_draws_other_noise_and_both_are_on_record(weft: Weft) -> None:
    synth(weft, "--seed", 3)
    first = Path("out.csv").read_bytes()
    synth(weft, "--seed", 3)
    assert Path("out.csv").read_bytes() != first
    runs = json.loads(weft("ledger", "out.ledger.jsonl", "--json").stdout)["runs"]
    assert [round(run["epsilon"], 3) for run in runs] == [1, 1]
    assert "epsilon 2 " in weft("ledger", "out.ledger.jsonl").stdout


def test_noise_seed_repeats_and_stamps_everything(weft: Weft) -> None:
    first = synth(weft, "--seed", 3, "--noise-seed", 9, "--model", "m.weft")
    made = Path("out.csv").read_bytes()
    assert "NOT PRIVATE" in first.stdout
    synth(weft, "--seed", 3, "--noise-seed", 9)
    assert Path("out.csv").read_bytes() == made
    assert "NOT PRIVATE" in Path("out.card.md").read_text()
    assert "private: false" in Path("out.card.md").read_text()
    card = json.loads(Path("out.card.json").read_text())
    assert "NOT PRIVATE" in card["stamps"][0]
    assert "NOT PRIVATE" in card["ledger"]["stamps"][0]
    assert "NOT PRIVATE" in weft("ledger", "m.weft").stdout
    assert "NOT PRIVATE" in synth(weft, "--noise-seed", 9, "--quiet").stderr


def test_noise_seed_stamps_the_journal(weft: Weft) -> None:
    synth(weft, "--noise-seed", 9)
    assert "NOT PRIVATE" in weft("ledger", "out.ledger.jsonl").stdout


def test_an_ordinary_run_carries_no_stamp(weft: Weft) -> None:
    assert "NOT PRIVATE" not in synth(weft).stdout
    assert json.loads(Path("out.card.json").read_text())["stamps"] == []


def test_card_names_the_file_by_its_hash(weft: Weft) -> None:
    synth(weft)
    digest = hashlib.sha256(Path("out.csv").read_bytes()).hexdigest()
    assert json.loads(Path("out.card.json").read_text())["table"]["sha256"] == digest
    assert digest in Path("out.card.md").read_text()


def test_json_answer_is_one_object(weft: Weft) -> None:
    result = synth(weft, "--json", "--rows", 7)
    answer = json.loads(result.stdout)
    assert answer["table"]["rows"] == 7
    assert answer["privacy"]["epsilon"] == pytest.approx(1, rel=1e-3)
    assert answer["files"] == ["out.csv", "out.card.md", "out.card.json", "out.ledger.jsonl"]
    assert result.stderr == ""


def test_quiet_says_nothing(weft: Weft) -> None:
    result = synth(weft, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


def test_summary_tells_spending_rows_and_files(weft: Weft) -> None:
    shown = synth(weft, "--rows", 1234).stdout
    for words in (
        "1,234 synthetic rows",
        "6 columns",
        "independent",
        "epsilon 1 at delta 1e-05",
        "out.csv",
        "out.card.md",
    ):
        assert words in shown


def test_stdout_carries_data_only(weft: Weft, folder: Path) -> None:
    result = weft("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-n", 5, "-o", "-")
    made = pa.csv.read_csv(pa.py_buffer(result.stdout.encode()))
    assert (made.num_rows, made.column_names) == (5, table().column_names)
    assert "5 synthetic rows" in result.stderr
    assert outputs(folder) == {"weft.ledger.jsonl"}
    as_json = weft("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-n", 5, "-o", "-", "--json")
    assert as_json.stdout.startswith('"visit"')
    assert json.loads(as_json.stderr)["table"]["rows"] == 5


def test_stdout_of_a_real_process_carries_data_only(folder: Path) -> None:
    words = ("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-n", 3, "-o", "-", "--journal", "j.jsonl")
    done = subprocess.run(command(*words), env=environment(), capture_output=True, check=True)
    assert len(done.stdout.splitlines()) == 4
    assert b"\x1b" not in done.stderr  # no bars where no terminal is
    assert outputs(folder) == {"j.jsonl"}


def test_a_reader_that_goes_away_is_no_error(model: Path) -> None:
    words = command("sample", model, "-n", 300_000, "-o", "-", "-q")
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_large_epsilon_is_warned_of_and_larger_refused(weft: Weft) -> None:
    result = weft("synth", "visits.csv", "-s", "visits.toml", "-e", 12, "-o", "out.csv")
    assert "e^12, which is nearly 163,000" in result.stderr
    assert "warning" not in synth(weft).stderr
    weft("synth", "visits.csv", "-s", "visits.toml", "-e", "inf", "-o", "out.csv", code=5)


def test_options_reach_the_method(weft: Weft) -> None:
    result = synth(weft, "--option", "accounting=pure", "--delta", 0, "--json")
    answer = json.loads(result.stdout)
    assert answer["method"]["options"] == {"accounting": "pure"}
    assert answer["ledger"]["entries"][0]["mechanism"] == "geometric"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--method", "independant"], "Did you mean 'independent'"),
        (["--option", "acounting=pure"], "Did you mean 'accounting'"),
        (["--option", "pure"], "KEY=VALUE"),
        (["--option", "epsilon=3"], "not an option of a method"),
    ],
)
def test_wrong_usage(weft: Weft, folder: Path, more: list[str], words: str) -> None:
    assert words in synth(weft, *more, code=2).stderr
    assert outputs(folder) <= {"out.ledger.jsonl"}


def test_a_method_runs_as_published(weft: Weft) -> None:
    synth(weft, "-m", "mst", "--preset", "paper", "--option", "passes=20")
    method = json.loads(Path("out.card.json").read_text())["method"]
    assert method["options"] == {"preset": "paper", "passes": 20}
    assert '`preset = "paper"`' in Path("out.card.md").read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--preset", "paper"], "method 'independent' follows no paper"),
        (["-m", "mst", "--preset", "theirs"], 'expected "paper"'),
        (["-m", "mst", "--preset", "paper", "--option", "preset=paper"], "give one of them"),
    ],
)
def test_presets_that_there_are_not(weft: Weft, folder: Path, more: list[str], words: str) -> None:
    assert words in synth(weft, *more, code=2).stderr
    assert not outputs(folder)


def test_replace_one_doubles_the_noise_variance(weft: Weft) -> None:
    one = json.loads(synth(weft, "--json").stdout)["ledger"]
    other = json.loads(synth(weft, "--neighbours", "replace-one", "--json").stdout)["ledger"]
    assert other["adjacency"]["relation"] == "replace-one"
    scales = [max(ledger["entries"][0]["scale"]) for ledger in (one, other)]
    assert scales[1] / scales[0] == pytest.approx(2**0.5, rel=1e-3)


def test_domain_json_is_a_schema_too(weft: Weft) -> None:
    codes = pa.table({"a": pa.array([0, 1, 2] * 50, pa.int8()), "b": pa.array([0, 1] * 75, pa.int64())})
    pa.parquet.write_table(codes, "codes.parquet")
    Path("codes.domain.json").write_text('{"a": 3, "b": 2}')
    weft("synth", "codes.parquet", "-s", "codes.domain.json", "-e", 1, "-o", "out.parquet")
    assert pa.parquet.read_schema("out.parquet").remove_metadata() == codes.schema


def test_stream_and_memory_count_alike(weft: Weft) -> None:
    made = []
    for engine in ("memory", "stream"):
        synth(weft, "--seed", 1, "--noise-seed", 1, "--engine", engine)
        made.append(Path("out.csv").read_bytes())
    assert made[0] == made[1]
