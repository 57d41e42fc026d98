from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from weft_lab import datasets as known
from weft_lab import fetch as fetching
from weft_lab.datasets import Dataset, Member, cache_folder, contents, datasets, locate
from weft_lab.generated import GENERATED
from weft_lab.tables import open_table

from weft.errors import DataError

from .test_command import weft

CSV = b"a,b\n1,x\n2,NA\n"
TABLE = pa.table({"a": [1, 2], "b": ["x", None]})
PACKED = Dataset(
    about="two rows",
    source="a package",
    licence="none",
    rows=2,
    columns=2,
    contents=contents(TABLE),
    package="tiny==1.0",
    members=(Member("tiny/t.csv", hashlib.sha256(CSV).hexdigest()),),
    null=("", "NA"),
)


@pytest.fixture
def cached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return cache_folder()


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Files of a wheel that a pip in place of the real one downloads."""
    files = {"tiny/t.csv": CSV}

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert "--only-binary=:all:" in command and "--no-deps" in command
        with zipfile.ZipFile(Path(command[command.index("-d") + 1]) / "tiny-1.0-py3-none-any.whl", "w") as wheel:
            for name, raw in files.items():
                wheel.writestr(name, raw)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(fetching.subprocess, "run", pip)
    monkeypatch.setattr(fetching, "datasets", lambda: {"tiny": PACKED})
    return files


def test_every_known_table_says_what_it_is_and_where_from() -> None:
    for name, one in datasets().items():
        assert one.about and one.source and one.licence and one.rows and len(one.contents) == 64, name
        assert not one.sizes or len(one.sizes) == one.columns
        assert (one.package is None) == (not one.members)
        assert one.package is None or "==" in one.package
        assert one.url is None or one.url.startswith("https://")
    assert {"nltcs", "acs", "adult", "br2000", "fire", "adult_aim", "cps_tax"} <= set(datasets())
    assert not set(datasets()) & set(GENERATED)


@pytest.mark.parametrize("name", sorted(datasets()))
def test_tables_that_are_here_have_the_contents_that_are_stated(name: str) -> None:
    path = locate(name)
    if path is None or name in ("cps_tax", "fire", "flights_raw", "acs_pums2018_west"):
        pytest.skip("not here, or large")
    table = pq.read_table(path)
    sizes = datasets()[name].sizes
    fetching.check(name, table.select(list(sizes)) if sizes else table)


def test_contents_do_not_depend_on_how_a_table_is_held() -> None:
    chunked = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1), TABLE.slice(2)])
    coded = pa.table({"a": pa.array([1, 2], pa.int8()), "b": TABLE["b"].combine_chunks().dictionary_encode()})
    assert contents(TABLE) == contents(chunked) == contents(coded)
    assert contents(TABLE) != contents(TABLE.take([1, 0]))
    assert contents(TABLE) != contents(pa.table({"a": [1, 2], "b": ["x", ""]}))


def test_a_table_of_a_package_is_fetched_checked_and_found(cached: Path, package: dict[str, bytes]) -> None:
    path = fetching.fetch("tiny")
    assert path == cached / "tiny.parquet" == locate("tiny")
    assert pq.read_table(path).equals(TABLE)
    assert not list(cached.glob("*.partial"))


def test_a_file_with_another_sum_is_refused(cached: Path, package: dict[str, bytes]) -> None:
    package["tiny/t.csv"] = CSV + b"3,y\n"
    with pytest.raises(DataError, match="SHA-256 differs"):
        fetching.fetch("tiny")
    package.clear()
    with pytest.raises(DataError, match="does not hold"):
        fetching.fetch("tiny")
    assert not cached.exists()


def test_other_contents_are_refused(cached: Path, package: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "datasets", lambda: {"tiny": replace(PACKED, null=("",))})
    with pytest.raises(DataError, match="not the contents"):
        fetching.fetch("tiny")
    assert not cached.exists()


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".zip"])
def test_a_coded_table_comes_from_its_publisher(cached: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    raw = b"0,1,extra\n1,0,7\n0,2,8\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as held:
        held.writestr("t.csv", raw)
    sent = {".csv": raw, ".csv.gz": gzip.compress(raw), ".zip": packed.getvalue()}[ending]
    monkeypatch.setattr(fetching, "urlopen", lambda url, timeout: io.BytesIO(sent))
    coded = replace(
        PACKED, package=None, members=(), url=f"https://t{ending}", sizes={"0": 2, "1": 3},
        contents=contents(pa.table({"0": [1, 0], "1": [0, 2]})),
    )  # fmt: skip
    monkeypatch.setattr(fetching, "datasets", lambda: {"coded": coded})
    fetching.fetch("coded")
    assert open_table("coded").records.domain.shape == (2, 3)


def test_uci_adult_is_read_from_its_two_parts() -> None:
    row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, ?"
    parts = [f"{row}, <=50K\n\n".encode(), f"|1x3 Cross validator\n{row}, >50K.\n".encode()]
    made = fetching.FORMS["adult"](parts, PACKED)
    assert made["income"].to_pylist() == ["<=50K", ">50K"]
    assert made["age"].to_pylist() == [39, 39] and made["native-country"].to_pylist() == ["?", "?"]


def test_a_generated_table_is_the_same_every_time(cached: Path) -> None:
    first = contents(pq.read_table(fetching.make("latent_small")))
    assert first == contents(pq.read_table(fetching.make("latent_small")))
    assert open_table("latent_small").records.domain.names == tuple(f"c{i:03}" for i in range(8))


def test_the_command_lists_makes_and_refuses(cached: Path) -> None:
    listed = {one["name"]: one for one in json.loads(weft("data", "--json").stdout)["tables"]}
    assert set(listed) == set(datasets()) | set(GENERATED)
    assert listed["latent_small"]["file"] is None
    assert "weft bench data make latent_small" in weft("data").stdout
    made = json.loads(weft("data", "make", "latent_small", "--json").stdout)["files"]
    assert Path(made[0]).parent == cached
    elsewhere = json.loads(weft("data", "make", "latent_small", "--data-folder", "mine", "--json").stdout)["files"]
    assert elsewhere == ["mine/latent_small.parquet"]
    assert "Did you mean 'latent_15'" in weft("data", "make", "latent_16", code=4).stderr
    assert "by hand" in weft("data", "fetch", "acs_pums2018_west", code=4).stderr


def test_the_command_says_which_table_is_another_one(cached: Path) -> None:
    pq.write_table(TABLE, "penguins.parquet")
    listed = {one["name"]: one for one in json.loads(weft("data", "--check", "--json").stdout)["tables"]}
    assert listed["penguins"]["contents"] is False
    assert listed["actg175"]["contents"] is None


def test_a_table_that_is_not_here_comes_with_its_remedy(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "PROJECT", cached / "nowhere" / "weft")
    with pytest.raises(DataError, match="weft bench data make latent_15"):
        open_table("latent_15")
    with pytest.raises(DataError, match="weft bench data fetch penguins"):
        open_table("penguins")
    with pytest.raises(DataError, match=r"census\.gov"):
        open_table("acs_pums2018_west")
