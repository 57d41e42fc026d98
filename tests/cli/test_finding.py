"""The schema that a run found may be given away."""

from dataclasses import replace

from conftest import SCHEMA

from weft.cli.discovered_schema import write_found
from weft.schema import Schema
from weft.synthesis.statement import NOT_PRIVATE


def test_a_schema_that_was_found_names_no_folder_of_this_machine(tmp_path):
    found = replace(Schema.from_toml(SCHEMA), discovery={"epsilon": 1.0, "delta": 1e-5})
    for source in ("/home/jane-doe/stays.csv", ["/home/jane-doe/stays.csv", "/home/jane-doe/more.csv"]):
        write_found(found, tmp_path / "found.toml", source)
        text = (tmp_path / "found.toml").read_text()
        assert "stays.csv" in text and "jane-doe" not in text


def test_a_schema_that_was_found_with_seeded_noise_says_so(tmp_path):
    found = replace(Schema.from_toml(SCHEMA), discovery={"epsilon": 1.0, "delta": 1e-5})
    write_found(found, tmp_path / "found.toml", "stays.csv", [NOT_PRIVATE])
    assert (tmp_path / "found.toml").read_text().startswith(f"# {NOT_PRIVATE}\n")
    assert Schema.load(tmp_path / "found.toml") == found
