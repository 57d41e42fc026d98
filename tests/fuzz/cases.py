"""Cases: each writes odd files into a copy of the world, and says which command is to meet them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from .mutations import ODD, mutation
from .world import CANARY, CANARY_NUMBER, SCHEMA, SECRETS, table

Words = list[str]
Rng = np.random.Generator

PIECES = [
    *(
        b'"',
        b"'",
        b",",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b";",
        b"\t",
        b"=cmd",
        b"\xed\xa0\x80",
    ),
    *(b"1e999", b"-", b"NaN", b"9" * 5000, b"a" * 100_000, CANARY.encode(), str(CANARY_NUMBER).encode(), b'"\n"\n"'),
]
TOKENS = [
    *("[]", "{}", "0", "-1", "1e999", "nan", "inf", '""', '"x"', "true", "9" * 5000, "[[]]", "[0]", '[1, "a"]'),
    *('"2024-13-01"', '"Mars/Base"', '"timestamp[us, tz=Mars/Base]"', '"decimal128(99, 9)"', '"{:99d}"', "1979-05-27"),
]


def _one(rng: Rng, some: Any) -> Any:
    return some[int(rng.integers(len(some)))]


def damage(content: bytes, rng: Rng) -> bytes:
    """Change some bytes: flip, cut, drop, repeat, or put something in."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(changed) + 1))
        match int(rng.integers(6)):
            case 0:
                changed[at : at + 1] = bytes([int(rng.integers(256))])
            case 1:
                del changed[at:]
            case 2:
                del changed[at : at + int(rng.integers(1, 40))]
            case 3:
                changed[at:at] = changed[at : at + int(rng.integers(1, 200))]
            case _:
                changed[at:at] = _one(rng, PIECES)
    return bytes(changed)


def _fit(rng: Rng, source: str, schema: str = "schema.toml") -> Words:
    """A command that reads a private table, or drafts, checks or reports on it."""
    method = _one(rng, ["independent", "mst", "independent", "weave"])
    match int(rng.integers(6)):
        case 0:
            return ["schema", "draft", source, "-o", "draft.toml"]
        case 1:
            return ["schema", "check", schema, source]
        case 2:
            return ["report", source, "released.csv", "-s", schema, "-o", "page.html"]
        case 3:
            return ["fit", source, "-s", schema, "-e", "1", "-m", method, "-o", "new.weft", "--engine", "stream"]
        case _:
            return ["synth", source, "-s", schema, "-e", "1", "-m", method, "-o", "new.csv"]


def csv(home: Path, rng: Rng) -> Words:
    """A damaged CSV file."""
    (home / "odd.csv").write_bytes(damage((home / "private.csv").read_bytes(), rng))
    return _fit(rng, "odd.csv")


def packed(home: Path, rng: Rng) -> Words:
    """A damaged gzip, or a gzip of a damaged CSV."""
    content = (home / "private.csv").read_bytes()
    content = damage(gzip.compress(content), rng) if rng.random() < 0.7 else gzip.compress(damage(content, rng))
    (home / "odd.csv.gz").write_bytes(content)
    return _fit(rng, "odd.csv.gz")


TYPES = [
    *(
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
    ),
    *(
        pa.bool_(),
        pa.date32(),
        pa.date64(),
        pa.timestamp("ns"),
        pa.timestamp("us", "Mars/Base"),
        pa.time32("s"),
        pa.null(),
    ),
    *(
        pa.duration("s"),
        pa.decimal128(10, 2),
        pa.decimal256(40, 2),
        pa.list_(pa.int8()),
        pa.dictionary(pa.int8(), pa.string()),
    ),
    *(pa.string_view(), pa.binary_view(), pa.struct([("a", pa.int8())]), pa.timestamp("s", "+02:00"), pa.binary(3)),
]


def parquet(home: Path, rng: Rng) -> Words:
    """A damaged Parquet file, or one whose columns have other types."""
    if rng.random() < 0.5:
        (home / "odd.parquet").write_bytes(damage((home / "private.parquet").read_bytes(), rng))
        return _fit(rng, "odd.parquet")
    made = table(rng)
    for _ in range(int(rng.integers(1, 3))):
        place = int(rng.integers(made.num_columns))
        kind = _one(rng, TYPES)
        try:
            column = made.column(place).cast(kind)
        except (pa.ArrowException, ValueError, TypeError):
            column = pa.nulls(made.num_rows, kind)
        made = made.set_column(place, made.column_names[place], column)
    try:
        pa.parquet.write_table(made, home / "odd.parquet")
    except pa.ArrowException:
        pa.parquet.write_table(table(rng), home / "odd.parquet")
    return _fit(rng, "odd.parquet")


def toml(home: Path, rng: Rng) -> Words:
    """A damaged schema, or one with odd values."""
    text = SCHEMA
    if rng.random() < 0.3:
        damaged = damage(text.encode(), rng)
        for secret in SECRETS:  # a schema is public, and messages quote its keys
            damaged = damaged.replace(secret.encode(), b"")
        (home / "odd.toml").write_bytes(damaged)
        return _fit(rng, "private.csv", "odd.toml")
    lines = text.splitlines()
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(len(lines)))
        key, sign, _ = lines[at].partition("=")
        if sign:
            lines[at] = f"{key}= {_one(rng, TOKENS)}"
        else:
            words = ["missing = false", "type = " + _one(rng, TOKENS), "step = " + _one(rng, TOKENS), "bins = 0", "["]
            lines.insert(at, _one(rng, [*words, "a" + ".a" * 2000 + " = 1", "x = " + "[" * 3000 + "]" * 3000]))
    (home / "odd.toml").write_text("\n".join(lines))
    return _fit(rng, _one(rng, ["private.csv", "private.parquet"]), "odd.toml")


def domain(home: Path, rng: Rng) -> Words:
    """An odd domain file."""
    sizes: dict[str, Any] = {"score": 21, "regular": 2, "town": {"domain": 4}}
    sizes[_one(rng, list(sizes))] = _one(rng, [*ODD, 2**31, 10**6, 999_999, {"domain": 10**9}])
    text = json.dumps(sizes)
    if rng.random() < 0.3:
        text = _one(rng, ["[" * 50_000, '{"a":' * 50_000, f'{{"a": {"9" * 5000}}}', "", "null", text[:-3]])
    (home / "odd.json").write_text(text)
    return _fit(rng, _one(rng, ["private.csv", "private.parquet"]), "odd.json")


def model(home: Path, rng: Rng) -> Words:
    """A model file that was changed, with a manifest that agrees with it or without."""
    path = home / "model.weft"
    if rng.random() < 0.3:
        path.write_bytes(damage(path.read_bytes(), rng))
    else:
        with zipfile.ZipFile(path) as file:
            members: dict[str, Any] = {name: file.read(name) for name in file.namelist()}
        members = {name: content for name, content in (members | mutation(members, rng)).items() if content is not None}
        hashes = {
            name: hashlib.sha256(content).hexdigest() for name, content in members.items() if name != "manifest.json"
        }
        members["manifest.json"] = json.dumps({"format": 2, "members": hashes}).encode()
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(name, content)
        path.write_bytes(held.getvalue())
    return _one(
        rng,
        [
            ["sample", "model.weft", "-n", "20", "-o", "new.csv"],
            ["sample", "model.weft", "-o", "new.parquet"],
            ["sample", "model.weft", "-n", "3", "-o", "-"],
            ["ledger", "model.weft"],
            ["verify", "."],
            ["report", "--releasable", "model.weft", "released.csv", "-o", "page.html"],
            ["report", "private.csv", "released.csv", "--model", "model.weft", "-o", "page.html"],
        ],
    )


def card(home: Path, rng: Rng) -> Words:
    """A changed card."""
    path = home / "released.card.json"
    if rng.random() < 0.3:
        path.write_bytes(damage(path.read_bytes(), rng))
    else:
        changed = mutation({"a.json": path.read_bytes(), "b.json": b"[1]", "c.json": b"[1]", "d.json": b"[1]"}, rng)
        path.write_bytes(changed.get("a.json") or path.read_bytes())
    return _one(
        rng,
        [
            ["verify", "."],
            ["verify", "released.csv", "--json"],
            ["report", "--releasable", "model.weft", "released.csv", "-o", "page.html"],
        ],
    )


def journal(home: Path, rng: Rng) -> Words:
    """A damaged journal, which is read or added to."""
    path = home / "model.ledger.jsonl"
    path.write_bytes(damage(path.read_bytes(), rng))
    if rng.random() < 0.5:
        return ["ledger", "model.ledger.jsonl"]
    return [
        "synth",
        "private.csv",
        *("-s", "schema.toml", "-e", "1", "-m", "independent", "-o", "new.csv", "--journal", "model.ledger.jsonl"),
    ]


def _value(rng: Rng, recipe: type[Any], option: str) -> Any:
    """An odd value of an option, one at the ends of its range, or one near the usual."""
    from weft.bounds import bounds_of

    chance = rng.random()
    if chance < 0.3:
        return _one(rng, [*ODD, "pure", "zcdp", "paper", "mst", [["score", "town"]], {"iterations": 10**12}, "1-3"])
    usual, bounds = getattr(recipe(), option), bounds_of(recipe).get(option)
    if bounds and chance < 0.5:
        return _one(rng, [bounds.low, bounds.low - 1, bounds.high + 1])
    if isinstance(usual, bool | str) or usual is None:
        return _one(rng, [usual, True, "pure", "zcdp", "paper", "refine", "privbayes-indif", 3])
    if isinstance(usual, int | float):
        return type(usual)(usual * float(_one(rng, [0.2, 0.5, 1, 2, 5])))
    return json.loads(json.dumps(usual))


def options(home: Path, rng: Rng) -> Words:
    """Options of a method that it may not take."""
    from weft.methods import METHODS, make_method

    name = _one(rng, [each for each in METHODS if each != "marginals"])
    recipe = type(make_method(name))
    given: Words = []
    for _ in range(int(rng.integers(1, 3))):
        option = _one(rng, fields(recipe)).name
        value = _value(rng, recipe, option)
        given += ["--option", f"{option}={value if isinstance(value, str) else json.dumps(value)}"]
    more = ["--delta", "0"] if rng.random() < 0.2 else []
    rows = ["-n", "20"] if rng.random() < 0.5 else []
    epsilon = _one(rng, ["1", "0.001", "0.0001", "20", "8"])
    source = _one(rng, ["private.csv", "private.parquet"])
    return ["synth", source, "-s", "schema.toml", "-e", epsilon, "-m", name, "-o", "new.csv", *given, *more, *rows]


FILES = [
    *(
        "private.csv",
        "private.parquet",
        "schema.toml",
        "domain.json",
        "model.weft",
        "released.csv",
        "released.card.json",
    ),
    *(
        "model.ledger.jsonl",
        ".",
        "gone.csv",
        "gone/there.csv",
        "*.csv",
        "duckdb:SELECT * FROM 'private.parquet'",
        "-",
        "",
    ),
    *("duckdb:gone.db?table=x", "duckdb:", "new.csv", "new.parquet", "new.weft", "page.html", "x" * 300),
    *("released.card.md", "é|`<b>.csv", "duckdb:SELECT 1", "[.csv", "**"),
]
FLAGS = [
    *(["--json"], ["--quiet"], ["--seed", "1"], ["--noise-seed", "1"], ["--neighbours", "replace-one"], ["-n", "0"]),
    *(["-n", "7"], ["--engine", "stream"], ["--trust-data-for-schema"], ["--insecure"], ["--formulas", "escape"]),
    *(["-e", "0"], ["-e", "nan"], ["-e", "1e-9"], ["-e", "50"], ["-e", "inf"], ["--delta", "0"], ["--delta", "1"]),
    *(["-n", "-1"], ["-n", "9" * 50], ["--seed", "9" * 50], ["--delta", "1e-320"], ["-m", "bsg"], ["--releasable"]),
]


def arguments(home: Path, rng: Rng) -> Words:
    """Commands with arguments that do not go together."""
    command = _one(rng, ["synth", "fit", "sample", "report", "ledger", "verify", "draft", "check", "methods"])
    named = [str(_one(rng, FILES)) for _ in range(5)]
    likely = rng.random(3) < 0.5
    source = "private.csv" if likely[0] else named[0]
    schema = "schema.toml" if likely[1] else named[1]
    flags = [word for _ in range(int(rng.integers(0, 3))) for word in _one(rng, FLAGS)]
    fitting = ["-s", schema, "-e", "1", "-m", "independent"]
    match command:
        case "synth":
            extra = ["--model", named[3]] if rng.random() < 0.4 else []
            extra += ["--journal", named[4]] if rng.random() < 0.4 else []
            return ["synth", source, *fitting, "-o", "new.csv" if likely[2] else named[2], *extra, *flags]
        case "fit":
            return ["fit", source, *fitting, "-o", "new.weft" if likely[2] else named[2], *flags]
        case "sample":
            return [
                "sample",
                "model.weft" if likely[0] else named[0],
                "-o",
                "new.csv" if likely[2] else named[2],
                *flags,
            ]
        case "report":
            return ["report", source, "released.csv" if likely[1] else named[1], "-s", schema, "-o", named[2], *flags]
        case "draft":
            return ["schema", "draft", named[0], "-o", named[2], *(["--force"] if likely[2] else [])]
        case "check":
            return ["schema", "check", named[0], named[1]]
        case _:
            return [command, named[0], *(["--json"] if likely[0] else [])]


KINDS: dict[str, Callable[[Path, Rng], Words]] = {
    each.__name__: each for each in (csv, packed, parquet, toml, domain, model, card, journal, options, arguments)
}
"""Every kind of case by name."""
