"""Kinds from noisy numbers of shapes, ranges from noisy cells."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.schema.kinds import column_from_dict
from weft.synthesis.discovery.kind_inference import decide_kind
from weft.synthesis.discovery.probes import estimate_extent, grid_look, number_range, real_edges, whole_edges
from weft.values.text_shapes import SHAPES, shapes_of


def counted(texts, times=1000):
    table = np.zeros(len(SHAPES))
    for text in texts:
        table[shapes_of(pa.array([text]))[0]] += times
    return table


@pytest.mark.parametrize(
    ("texts", "entry"),
    [
        (["1", "22", "-3"], {"kind": "integer"}),
        (["1.0", "22.0", ""], {"kind": "integer", "type": "float64", "missing": True}),
        (["1.5", "22", "3.25"], {"kind": "real", "decimals": 2}),
        (["1e-9", "0.12345678"], {"kind": "real"}),
        (["007", "123"], {"kind": "category"}),
        (["$1,200", "$5.50"], {"kind": "real", "decimals": 2, "prefix": "$", "thousands": ","}),
        (["5%", "7%"], {"kind": "integer", "suffix": "%"}),
        (["20240131", "20231231"], {"kind": "datetime", "format": "%Y%m%d", "type": "int64"}),
        (["2024-01-31"], {"kind": "datetime"}),
        (["31/12/2020", "01/02/2020"], {"kind": "datetime", "format": "%d/%m/%Y"}),
        (["12/31/2020", "01/02/2020"], {"kind": "datetime", "format": "%m/%d/%Y"}),
        (["2024-01-31 10:00:00"], {"kind": "datetime", "step": "1s"}),
        (["2024-01-31 00:00:00"], {"kind": "datetime", "type": "timestamp[s]"}),
        (["2024-01-31T10:00:00Z"], {"kind": "datetime", "timezone": "UTC", "step": "1s"}),
        (["10:30", "11:45"], {"kind": "time", "step": "1min"}),
        (["True", "False", "?"], {"kind": "category", "values": ["False", "True"], "missing": ["?"]}),
        (["true", "false"], {"kind": "boolean"}),
        (["red", "green", "1"] * 3, {"kind": "category"}),
        (["a very long text that nobody would take for a code of anything"], {"kind": "id", "pattern": "text {}"}),
    ],
)
def test_what_texts_are_taken_for(texts, entry):
    assert decide_kind(counted(texts), 10.0).entry == entry


@given(st.integers(0, len(SHAPES) - 1))
def test_a_few_rows_decide_nothing(place):
    table = counted(["12"], 10_000)
    few = table.copy()
    few[place] += 30
    assert decide_kind(few, 10.0).entry == decide_kind(table, 10.0).entry


def test_noise_alone_is_no_kind():
    noise = np.random.default_rng(0).normal(0, 10, len(SHAPES))
    assert decide_kind(noise, 10.0).need == "text"


@pytest.mark.parametrize("sigma", [20.0, 100.0])
def test_ranges_hold_nearly_all_rows_and_stay_near(sigma):
    rng = np.random.default_rng(1)
    edges = np.array(whole_edges())
    for values in (rng.integers(18, 90, 40_000), rng.geometric(0.01, 40_000), np.full(5000, 2015)):
        counts = np.histogram(values, edges)[0]
        for _ in range(20):
            first, last = estimate_extent(counts + rng.normal(0, sigma, len(counts)), sigma)
            inside = (values >= edges[first]) & (values < edges[last + 1])
            assert inside.mean() > 0.95
            assert edges[last + 1] <= 3 * values.max()
            assert edges[first] >= -20


def test_the_public_grids_rise():
    for edges in (whole_edges(), real_edges()):
        assert all(a < b for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.string()])
def test_a_grid_fits_its_type(arrow_type):
    look = grid_look("x", {"kind": "integer"}, arrow_type)
    coder = look.column.coder(arrow_type, False)
    cells, special, missing = look.read(np.arange(coder.size))
    assert len(cells) == len(look.edges) - 1
    assert len(special) == len(look.special)
    assert missing == coder.size - 1


@pytest.mark.parametrize("seed", range(12))
def test_whatever_noise_finds_is_a_schema(seed):
    """With next to nothing to go by, ranges are wild; they must still be such that rows can be coded and made."""
    from weft import Synthesizer

    rng = np.random.default_rng(seed)
    table = pa.table(
        {
            "cost": pa.array(np.round(rng.gamma(2, 30, 40), 2)),
            "day": pa.array(rng.integers(18_000, 19_000, 40), pa.int32()).cast(pa.date32()),
            "count": pa.array(rng.integers(0, 5, 40), pa.int16()),
            "word": pa.array(rng.choice(["a", "b"], 40)),
        }
    )
    pq.write_table(table, "small.parquet")
    made = Synthesizer(0.5, method="independent", journal=None, noise_seed=seed).fit("small.parquet", unit=False)
    assert made.sample(20).schema.names == table.schema.names


@settings(deadline=None, max_examples=30)
@given(st.tuples(*[st.integers(0, len(real_edges()) - 2)] * 2), st.sampled_from([None, 0, 1, 2, 3, 4]))
def test_whatever_noise_takes_for_the_range_is_a_column(cells, decimals):
    """A range far from every row is a bad guess, and no reason to fail after it has been paid for."""
    found = number_range(real_edges(), (min(cells), max(cells)), False, decimals)
    entry = {"kind": "real", "range": found, "outside": "clip"}
    column = column_from_dict("x", entry if decimals is None else {**entry, "decimals": decimals})
    coder = column.coder(pa.float64(), False)
    drawn = coder.decode(np.arange(coder.size), np.random.default_rng(1))
    assert coder.encode(drawn).tolist() == list(range(coder.size))


def test_a_few_rows_side_by_side_are_found_where_none_of_their_cells_stands_out():
    rng, sigma, right = np.random.default_rng(3), 50.0, 0
    for _ in range(100):
        counts = np.zeros(574)
        counts[361:369] = 80  # each cell within two standard deviations of nothing; together, five
        first, last = estimate_extent(counts + rng.normal(0, sigma, 574), sigma)
        right += 340 < first <= 364 and 366 <= last < 390  # wider where in doubt
    assert right >= 90  # the largest cell alone finds them in about half
