"""What codes do not show: numbers and dates, broken rules, rows per person; from tables with known answers."""

import datetime as dt
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.encoding import Codec
from weft.evaluation.report import private_report, releasable_report, render
from weft.evaluation.report.cautions import against_real
from weft.evaluation.report.measure_report import measure_private, measure_releasable
from weft.evaluation.report.report_figures import Bar, ColumnFigures, PairFigures
from weft.evaluation.report.report_pairs import compare_pairs, rests_on
from weft.marginals.records import Records
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer

SCHEMA = Schema.from_toml("""
unit = "person"
rows_per_unit = 2
per_unit = ["sex"]
[columns.person]
kind = "id"
[columns.sex]
kind = "category"
values = ["f", "m"]
missing = true
[columns.price]
kind = "real"
range = [0, 100]
decimals = 2
missing = true
outside = "clip"
[columns.arrival]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.leave]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.total]
kind = "derived"
formula = "price + price"
[[rules]]
order = ["arrival", "leave"]
[[rules]]
forbid = [{sex = "m", price = 99.0}]
policy = "refuse"
""")
MONDAY, TUESDAY, JUNE = dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 6, 8)


def rows(person, sex, price, arrival, leave):
    price = pa.array(price, pa.float64())
    total = pa.array([None if p is None else 2 * min(p, 100.0) for p in price.to_pylist()], pa.float64())
    columns = {"person": person, "sex": pa.array(sex, pa.string()), "price": price, "arrival": arrival, "leave": leave}
    return pa.table(columns | {"total": total})


REAL = rows(
    ["a", "a", "a", "b", "c", ""],
    ["f", "f", "f", "m", None, "m"],
    [10.0, 20.0, 30.0, 40.0, None, 150.0],
    [TUESDAY, MONDAY, MONDAY, MONDAY, MONDAY, MONDAY],
    [MONDAY, MONDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY],
)
SYNTH = rows(
    ["1", "1", "2", "2", "3"],
    ["f", "f", "f", "m", "m"],
    [10.5, 20.5, 30.5, 40.0, 50.0],
    [JUNE, MONDAY, MONDAY, MONDAY, MONDAY],
    [JUNE, MONDAY, TUESDAY, TUESDAY, TUESDAY],
)


@pytest.fixture
def files(tmp_path):
    pq.write_table(REAL, tmp_path / "real.parquet")
    pq.write_table(SYNTH, tmp_path / "synth.parquet")
    return tmp_path / "real.parquet", tmp_path / "synth.parquet"


@pytest.fixture
def report(files):
    return private_report(*files, SCHEMA)


def test_numbers_are_those_of_the_values(report):
    price, arrival, leave, total = report.numbers
    assert [n.name for n in report.numbers] == ["price", "arrival", "leave", "total"]
    assert price.mean == pytest.approx((250 / 5, 151.5 / 5))
    assert price.quantile(0.5) == (30.0, 30.5)
    assert (price.grain, price.round_share) == (1.0, (1.0, pytest.approx(0.4)))
    assert total.mean[1] == pytest.approx(2 * price.mean[1])
    assert arrival.weekdays[:2] == ((pytest.approx(5 / 6), pytest.approx(0.8)), (pytest.approx(1 / 6), 0.0))
    assert arrival.weekdays[5] == (0.0, pytest.approx(0.2)) and arrival.months[5] == (0.0, pytest.approx(0.2))
    assert leave.dates and leave.grain is None


def test_the_page_and_its_twin_carry_them(report):
    page, twin = render(report), json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert 'id="numbers"' in page and "whole numbers" in page and "2024-01-01" in page
    assert [n["name"] for n in twin["numbers"]] == ["price", "arrival", "leave", "total"]
    assert twin["rules"][0]["real"] == 1 and twin["people"]["unit"] == "person"
    assert report.table_columns == 6 and report.made_anew == ("person",) and report.derived == ("total",)


def test_numbers_that_lost_their_shape_are_named(report):
    said = next(caution.reason for caution in report.cautions if caution.columns == ("price",))
    weekday = next(caution.reason for caution in report.cautions if caution.columns == ("arrival",))
    assert "the share of Saturdays changed from 0.0% to 20.0%" in weekday
    assert "mean changed from 50 to 30.3" in said and "the share of whole numbers changed from 100.0% to 40.0%" in said


def test_rules_count_synthetic_rows_and_private_ones_only_where_they_were_kept(report):
    order, forbidden = report.rules
    assert (order.synth, order.real, order.policy) == (0, 1, "counted as they are")
    assert (forbidden.synth, forbidden.real) == (0, None)
    page = render(report)
    assert "1 row of the private table breaks it; it was counted as it is" in page


def test_a_broken_rule_is_the_first_caution(files):
    bad = SYNTH.set_column(4, "leave", pa.array([MONDAY] * 5))
    pq.write_table(bad, files[1])
    report = private_report(*files, SCHEMA)
    assert report.rules[0].synth == 1
    assert report.cautions[0].columns == ("arrival", "leave") and "1 synthetic row breaks" in report.cautions[0].reason


def test_people_are_counted_after_their_rows_are_limited(report):
    people = report.people
    assert (people.real_people, people.people, people.most) == (3, 3, 2)
    assert people.real_sizes == pytest.approx((2 / 3, 1 / 3)) and people.sizes == pytest.approx((1 / 3, 2 / 3))
    (sex,) = people.agreement
    assert (sex.column, sex.real, sex.synth) == ("sex", 1.0, 0.5)
    assert "50.0% of the synthetic people" in next(c.reason for c in report.cautions if "people" in c.reason)


def test_the_releasable_edition_has_synthetic_values_only():
    table = REAL.take(pa.array(np.arange(200) % 5))
    ids = pa.array([str(i // 2) for i in range(200)])
    table = table.set_column(0, "person", ids)
    fitted = Synthesizer(epsilon=5.0, method="independent", seed=1).fit(table, SCHEMA).fitted_
    report = releasable_report(fitted)
    assert [n.name for n in report.numbers] == ["price", "arrival", "leave", "total"]
    for column in report.numbers:
        figures = (column.mean, column.sd, *column.quantiles, *column.weekdays, *column.months, column.round_share)
        assert all(before is None for before, _ in figures) and column.moved is None
    assert all(rule.synth == 0 and rule.real is None for rule in report.rules) and len(report.rules) == 2
    assert report.people.real_sizes is None and report.people.real_people is None
    assert sum(report.people.sizes) == pytest.approx(1) and report.people.agreement[0].real is None
    page = render(report)
    assert "of the private table break" not in page and 'class="before"' not in page


def test_without_tables_these_parts_are_left_out(releasable, fitted, synth):
    assert measure_releasable(fitted, synth).numbers == () and releasable.rules == () and releasable.people is None
    page = render(releasable)
    assert all(f'id="{part}"' not in page for part in ("numbers", "rules", "people"))


def test_headlines_say_the_median_and_the_worst(private):
    single, joint = private.headlines[:2]
    distances = {column.name: column.distance for column in private.columns}
    assert single.median == pytest.approx(1 - np.median(list(distances.values())))
    assert single.worst == pytest.approx(1 - max(distances.values()))
    assert distances[single.worst_of[0]] == max(distances.values())
    worst = max(private.pairs, key=lambda pair: pair.distance)
    assert joint.worst_of == worst.columns and joint.beside in render(private)


def column(name, distance, share=0.5):
    bars = (Bar("x", "x", "value", share, share), Bar("y", "y", "value", 1 - share, 1 - share))
    return ColumnFigures(name, "category", 2, distance, None, bars)


def test_the_worst_pair_is_always_named():
    pairs = [PairFigures(("a", "b"), 0.02, 0.3, 0.3, True), PairFigures(("a", "c"), 0.03, 0.3, 0.3, True)]
    named = against_real([column(name, 0.01) for name in "abc"], pairs)
    assert [caution.columns for caution in named] == [("a", "c")] and "differs most" in named[0].reason
    off = against_real([column("a", 0.4), column("b", 0.0), column("c", 0.0)], pairs)
    assert [caution.columns for caution in off] == [("a",), ("a", "c")]


def test_columns_with_nearly_one_value_are_folded(private):
    assert column("a", 0.0, 0.995).constant and not column("a", 0.0, 0.98).constant
    flat = replace(private, columns=(*private.columns[:3], replace(column("cost", 0.0, 0.995), name="cost")))
    page = render(flat)
    assert 'id="constant"' in page and page.index('id="constant"') < page.index('id="column-3"')
    assert 'id="constant"' not in render(private)


def test_a_relation_that_rests_on_rare_cells_is_called_so():
    rare = np.array([[990, 0, 0], [0, 5, 0], [0, 0, 5]])
    assert rests_on(rare) == pytest.approx(0.01)  # either of the two cells makes a little less than half of it
    assert rests_on(np.diag([500, 500])) == 0.75  # an empty cell is no rare one: 250 rows were to be expected
    pair = PairFigures(("a", "b"), 0.1, 0.9, 0.2, True, 0.005)
    assert pair.on_few and not PairFigures(("a", "b"), 0.1, 0.01, 0.02, True, 0.005).on_few
    said = against_real([column("a", 0.0), column("b", 0.0)], [pair])[0].reason
    assert "half of it depends on cells with 0.5% of the rows" in said


def test_what_a_relation_rests_on_is_found_for_strong_pairs(real, synth):
    found = compare_pairs(real, synth)
    strong = np.maximum(found.real, found.synth) >= 0.1
    upper = np.triu(np.ones_like(strong), 1)
    assert np.isfinite(found.rests_on[strong & upper]).all() and strong[upper].any()
    assert np.isnan(found.rests_on[~strong & upper]).all()


def test_the_map_can_be_sorted_and_long_names_are_told_whole():
    names = ["a", "b", "a_name_that_is_longer_than_its_place"]
    schema = Schema.from_toml("".join(f'[columns.{n}]\nkind = "boolean"\n' for n in names))
    codec = Codec(schema, pa.schema([(n, pa.bool_()) for n in names]))
    before = Records.of(codec.domain, [[0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0]])
    after = Records.of(codec.domain, [[0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]])
    page = render(measure_private(before, after, codec))
    assert 'id="worst-first"' in page and 'data-order="0 1 2"' in page and 'data-order="2 0 1"' in page
    assert page.count(f"<title>{names[2]}</title>") >= 2
