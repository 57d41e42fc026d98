"""Record what every method releases under fixed seeds, and compare: moving code must not change a byte of it.

    python tests/golden.py record golden.json
    python tests/golden.py compare golden.json

Each case is one method on one table; what is kept is the SHA-256 of the released rows and of the rows that the
saved and loaded model samples. Floating-point results may differ between machines, so a record is compared on the
machine that made it, and no test depends on one.
"""

import argparse
import contextlib
import hashlib
import io
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import weft
from weft.hospital import hospital, hospital_schema
from weft.methods import METHODS

CODED = {f"c{i}": size for i, size in enumerate((2, 3, 5, 4, 2, 6))}

VISITS = """\
unit = "person"
rows_per_unit = 4
groups = [["sex", "pregnant"]]

[columns.person]
kind = "id"

[columns.sex]
kind = "category"
values = ["f", "m"]

[columns.pregnant]
kind = "boolean"

[columns.age]
kind = "integer"
range = [0, 99]
bins = 20

[columns.arrived]
kind = "datetime"
format = "%Y-%m-%d"
edges = ["2024-01-01", "2024-04-01", "2024-07-01", "2024-10-01", "2024-12-31"]

[columns.left]
kind = "datetime"
format = "%Y-%m-%d"
after = "arrived"
edges = [0, 1, 2, 4, 7, 14, 30, 60]

[columns.cost]
kind = "real"
range = [0, 5000]
bins = 16
decimals = 2

[[rules]]
when = {sex = "m"}
then = {pregnant = false}
"""


def coded_table(rows=700):
    rng = np.random.default_rng(1)
    base = rng.random(rows)
    noisy = {name: np.clip(base + 0.25 * rng.normal(size=rows), 0, 0.999) for name in CODED}
    return pa.table({name: (noisy[name] * size).astype(np.int64) for name, size in CODED.items()})


def raw_table(rows=900):
    """A file as somebody exports it: text, empty cells, amounts; no schema."""
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, rows)
    town = np.array(["Ayr", "Bath", "Cork", "Deal"])[np.minimum(rng.integers(0, 6, rows) * age // 120, 3)]
    smokes = rng.random(rows) < 0.2 + age / 300
    amount = np.round(rng.gamma(2, 40 + age, rows), 2)
    seen = np.datetime64("2023-01-01") + rng.integers(0, 400, rows)
    lines = ["age,town,smokes,amount,seen"]
    for a, t, s, m, d, gone in zip(age, town, smokes, amount, seen, rng.random(rows) < 0.05, strict=True):
        lines.append(f"{a},{'' if gone else t},{'yes' if s else 'no'},{m},{d}")
    return "\n".join(lines) + "\n"


def visits_table(people=300):
    rng = np.random.default_rng(3)
    rows = rng.integers(1, 5, people)
    who = np.repeat(np.arange(people), rows)
    n = len(who)
    sex = np.where(rng.random(people) < 0.5, "f", "m")[who]
    arrived = np.datetime64("2024-01-01") + rng.integers(0, 366, n)
    lengths = rng.integers(0, 40, n)
    return pa.table(
        {
            "person": [f"p{i:04d}" for i in who],
            "sex": sex,
            "pregnant": (sex == "f") & (rng.random(n) < 0.2),
            "age": rng.integers(0, 100, people)[who],
            "arrived": np.datetime_as_string(arrived),
            "left": np.datetime_as_string(arrived + lengths),
            "cost": np.round(lengths * 80.0 + rng.random(n) * 100, 2),
        }
    )


def release(data, schema, method, folder, **settings):
    """Return hashes of the rows and of those of the saved model."""
    unit = {"unit": False} if schema is None else {}
    synthesizer = weft.Synthesizer(method=method, seed=5, noise_seed=7, journal=None, **settings)
    synthesizer.fit(data, schema, **unit)
    synthesizer.save(folder / "model.weft")
    rows = synthesizer.sample(400, seed=6)
    again = weft.load(folder / "model.weft").sample(400, seed=6)
    return [hashed(rows), hashed(again)]


def hashed(table):
    held = io.BytesIO()
    pacsv.write_csv(table if isinstance(table, pa.Table) else pa.table(table), held)
    return hashlib.sha256(held.getvalue() + str(table.schema).encode()).hexdigest()[:32]


def cases(folder):
    """Yield the name of each case and what runs it."""
    raw = folder / "raw.csv"
    raw.write_text(raw_table())
    domain = weft.Schema.from_domain(CODED)
    visits = weft.Schema.from_toml(VISITS)
    stays, hospital_rules = hospital(800), weft.Schema.from_toml(hospital_schema())
    for method in METHODS:
        yield f"{method} coded", lambda m=method: release(coded_table(), domain, m, folder, epsilon=2.0)
        yield f"{method} raw", lambda m=method: release(raw, None, m, folder, epsilon=3.0)
        yield f"{method} visits", lambda m=method: release(visits_table(), visits, m, folder, epsilon=3.0)
        yield f"{method} paper", lambda m=method: release(coded_table(), domain, m, folder, epsilon=2.0, preset="paper")
        yield f"{method} pure", lambda m=method: release(coded_table(), domain, m, folder, epsilon=2.0, delta=0.0)
        yield f"{method} hospital", lambda m=method: release(stays, hospital_rules, m, folder, epsilon=3.0)
    stream = {"engine": "stream", "epsilon": 3.0}
    pq.write_table(visits_table(), folder / "visits.parquet", row_group_size=200)
    yield "weave visits, streamed", lambda: release(folder / "visits.parquet", visits, "weave", folder, **stream)
    yield "weave raw, replace-one", lambda: release(raw, None, "weave", folder, epsilon=3.0, neighbours="replace-one")


def record():
    """Run every case; a refusal is recorded as the type of its error."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, run in cases(Path(folder)):
            start = time.monotonic()
            try:
                found[name] = run()
            except weft.errors.WeftError as error:
                found[name] = [type(error).__name__]
            print(f"{time.monotonic() - start:6.1f} s  {name}: {found[name][0]}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    found = record()
    if args.what == "record":
        args.file.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known = json.loads(args.file.read_text())
    differing = [name for name in sorted(known | found) if known.get(name) != found.get(name)]
    print(f"{len(known)} cases, {len(differing)} differ: {', '.join(differing) or 'none'}")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
