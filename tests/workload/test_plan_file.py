"""A plan of marginals as a file: what it says is kept, and what is wrong is told with its line before any spending."""

import pyarrow as pa
import pytest
from conftest import SCHEMA, make_table

import weft
from weft import MarginalPlan
from weft.errors import WeftError
from weft.schema import Schema
from weft.synthesis.marginal_plan.plan_file import Filled, Given

PLAN = """\
[compress]
deviations = 3.0
floor = 2

[[presence]]
name = "there"
columns = ["ward", "cost"]

[[bins]]
column = "age"
bins = 5

[[fills]]
column = "sex"
by = "random"
below = 0.5

[[marginals]]
columns = ["age", "ward"]
weight = 2.0
exact = true

[[marginals]]
sets = [["ward", "cost"], ["there", "age"]]
above = 0.5
"""


def fit(plan, method="dpsyn", epsilon=1.0, table=None, schema=SCHEMA, **options):
    made = weft.Synthesizer(epsilon, method=method, seed=1, journal=None, marginals=plan, **options)
    return made.fit(make_table(400) if table is None else table, Schema.from_toml(schema))


def test_a_plan_is_read_from_a_path_a_text_an_object_and_what_it_writes(tmp_path):
    plan = MarginalPlan.from_toml(PLAN)
    (tmp_path / "plan.toml").write_text(PLAN)
    assert plan == MarginalPlan.read(tmp_path / "plan.toml") == MarginalPlan.read(str(tmp_path / "plan.toml"))
    assert plan == MarginalPlan.read(PLAN) == MarginalPlan.read(plan) == MarginalPlan.read(plan.to_dict())
    assert plan == MarginalPlan.from_toml(plan.to_toml())


def test_a_budget_chooses_the_items_that_hold_for_it():
    plan = MarginalPlan.from_toml(PLAN)
    assert [len(plan.at(e).of(Given)) for e in (0.1, 0.5, 3.0)] == [1, 2, 2]
    assert [len(plan.at(e).of(Filled)) for e in (0.1, 0.5)] == [1, 0]
    measured = fit(PLAN, epsilon=0.2).fitted_.measured
    assert "sex" not in {name for table in measured for name in table.clique}


FAULTS = {
    "an unknown column": ('[[marginals]]\ncolumns = ["age", "wardd"]', 2, 'Did you mean "ward"'),
    "an unknown section": ('[[marginal]]\ncolumns = ["age"]', 1, "marginals"),
    "an unknown key": ('[[marginals]]\ncolumns = ["age"]\nweigth = 2', 3, "weight"),
    "overlapping groups": (
        '[[groups]]\ncolumns = ["sex", "ward"]\n[[groups]]\ncolumns = ["ward", "age"]',
        4,
        "groups must not overlap",
    ),
    "a weight that is none": ('[[marginals]]\ncolumns = ["age"]\nweight = 0', 3, "weight must be a number from"),
    "weights that cannot be met": (
        '[[marginals]]\ncolumns = ["age"]\n[[fills]]\ncolumn = "sex"\nfrom = "ward"\nweight = 50',
        6,
        "weights are too large",
    ),
    "a map that is no function": (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = [["a", "f"], ["a", "m"], ["b", "f"]]',
        4,
        "not a function",
    ),
    "a map written as a table that is no function": (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "f", a = "m"}',
        4,
        "must not list a value twice",
    ),
    "a map that lacks an answer": ('[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "f"}', 4, "has no value for"),
    "a map to no value": (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "x", b = "f", c = "f", d = "f"}',
        4,
        "not a value of",
    ),
    "a column that is filled in and measured": (
        '[[fills]]\ncolumn = "sex"\nby = "random"\n[[marginals]]\ncolumns = ["age", "sex"]',
        5,
        "filled in afterwards",
    ),
    "columns filled in from each other": (
        '[[fills]]\ncolumn = "sex"\nfrom = "ward"\n[[fills]]\ncolumn = "ward"\nfrom = "sex"',
        3,
        "circle",
    ),
    "a map learned from what is made at random": (
        '[[fills]]\ncolumn = "sex"\nfrom = "ward"\n[[fills]]\ncolumn = "ward"\nby = "random"',
        3,
        "choose a measured column",
    ),
    "the same values where they differ": ('[[fills]]\ncolumn = "sex"\nfrom = "ward"\nby = "same"', 4, "learned"),
    "a presence of what is never missing": ('[[presence]]\ncolumns = ["sex", "ward"]', 2, "missing = true"),
    "too many bins": ('[[bins]]\ncolumn = "sex"\nbins = 9', 3, "fewer bins"),
    "a value in two bins": ('[[bins]]\ncolumn = "ward"\ninto = [["a", "b"], ["b"]]', 3, "two bins"),
    "marginals across parts": (
        '[[parts]]\ncolumns = ["age", "sex"]\n[[marginals]]\ncolumns = ["age", "cost"]',
        3,
        "several parts",
    ),
    "two mechanisms": (
        '[[marginals]]\ncolumns = ["age"]\nmechanism = "gaussian"\n'
        '[[marginals]]\ncolumns = ["sex"]\nmechanism = "geometric"',
        6,
        "one mechanism per run",
    ),
    "nothing below what is above": ('[[marginals]]\ncolumns = ["age"]\nabove = 2\nbelow = 1', 3, "less than below"),
    "a column twice": ('[[marginals]]\ncolumns = ["age", "age"]', 2, "each named once"),
    "a column twice in a set": ('[[marginals]]\nsets = [["age", "sex"], ["age", "age"]]', 2, "each named once"),
    "a negative weight": ('[[marginals]]\ncolumns = ["age"]\nweight = -1', 3, "weight must be a number from"),
    "an unknown mechanism": (
        'mechanism = "laplace"\n[[marginals]]\ncolumns = ["age"]',
        1,
        "one of auto, gaussian, geometric",
    ),
    "a pattern whose name is none": (
        '[[presence]]\nname = 3\ncolumns = ["ward", "cost"]\n[[marginals]]\ncolumns = ["age"]',
        2,
        "name must be a text",
    ),
    "a missing value that is none": ('[[presence]]\ncolumns = ["ward", "cost"]\nmissing = [1, 2]', 3, "one value"),
    "bins that are no lists": ('[[bins]]\ncolumn = "ward"\ninto = 3', 3, "lists of values"),
    "bins that are a text": ('[[bins]]\ncolumn = "ward"\ninto = "ab"', 3, "lists of values"),
    "nothing to measure": (
        "\n".join(f'[[fills]]\ncolumn = "{name}"\nby = "random"' for name in ("age", "sex", "ward", "cost")),
        11,
        "none is measured",
    ),
    "a map of a number that lacks an answer": (
        '[[maps]]\nof = "age"\ngives = "sex"\nmap = {1 = "f"}\n[[marginals]]\ncolumns = ["cost"]',
        4,
        "else =",
    ),
    "maps in a circle": (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "f", b = "f", c = "m", d = "m"}\n'
        '[[maps]]\nof = "sex"\ngives = "ward"\nmap = {f = "a", m = "b"}',
        8,
        "in a circle",
    ),
    "an answer for the others that is no value": (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "f"}\nelse = "x"',
        5,
        "not a value of",
    ),
    "no TOML": ('[[marginals]]\ncolumns = ["age"', 2, "not TOML"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_plan_is_refused_with_its_line_before_anything_is_spent(fault, tmp_path):
    text, line, remedy = FAULTS[fault]
    path, journal = tmp_path / "plan.toml", tmp_path / "run.ledger.jsonl"
    path.write_text(text)
    made = weft.Synthesizer(1.0, method="dpsyn", journal=journal)
    with pytest.raises(WeftError) as refused:
        made.set_params(marginals=path)
        made.fit(make_table(200), Schema.from_toml(SCHEMA))
    assert str(refused.value).startswith(f"{path}, line {line}: ") and remedy in str(refused.value)
    assert not journal.exists()


@pytest.mark.parametrize("wrong", ["a folder", "no file", "an empty file", "no text"])
def test_a_file_that_is_no_plan_is_refused_with_a_remedy(wrong, tmp_path):
    path, journal = tmp_path / "plan.toml", tmp_path / "run.ledger.jsonl"
    if wrong == "a folder":
        path.mkdir()
    elif wrong != "no file":
        path.write_bytes(b"" if wrong == "an empty file" else b"\xff\xfe")
    with pytest.raises(WeftError) as refused:
        weft.Synthesizer(1.0, method="dpsyn", journal=journal, marginals=path)
    remedy = r"add a table such as" if wrong == "an empty file" else "weft marginals draft"
    assert str(refused.value).startswith(f"{path}: ") and remedy in str(refused.value) and not journal.exists()


def test_a_mark_at_the_start_of_a_file_is_no_part_of_the_plan(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8-sig")
    assert MarginalPlan.load(tmp_path / "plan.toml") == MarginalPlan.from_toml(PLAN)


def test_a_plan_that_says_nothing_for_a_budget_is_refused():
    with pytest.raises(WeftError, match=r"no item applies at epsilon 1: change above and below"):
        fit('[[marginals]]\ncolumns = ["age"]\nabove = 2.0\n')


def test_gaussian_noise_without_a_delta_is_refused(tmp_path):
    for text, line in (("{}{}", 1), ("{1}{0}", 3)):
        (tmp_path / "plan.toml").write_text(
            text.format('mechanism = "gaussian"\n', '[[marginals]]\ncolumns = ["age"]\n')
        )
        with pytest.raises(WeftError, match=rf"plan.toml, line {line}: .*delta above 0"):
            fit(tmp_path / "plan.toml", delta=0.0)


def test_a_code_book_is_kept_with_its_plan(tmp_path, monkeypatch):
    """What is kept of a run (a model, a checkpoint) is read in other folders than the one that had the file."""
    (tmp_path / "wards.csv").write_text("ward,sex\na,f\nb,f\nc,m\nd,m\n")
    (tmp_path / "plan.toml").write_text(
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = "wards.csv"\n[[marginals]]\ncolumns = ["age", "ward"]\n'
    )
    made = fit(tmp_path / "plan.toml")
    made.save(tmp_path / "model.weft")
    monkeypatch.chdir(tmp_path.parent)
    (tmp_path / "wards.csv").unlink()
    again = fit(weft.load(tmp_path / "model.weft").options["marginals"])
    rows = again.sample(200, seed=0).to_pylist()
    assert all(row["sex"] == (None if row["ward"] is None else "f" if row["ward"] in "ab" else "m") for row in rows)


def test_a_map_may_have_one_answer_for_all_others():
    plan = (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "f"}\nelse = "m"\n[[marginals]]\ncolumns = ["age", "ward"]\n'
    )
    assert MarginalPlan.from_toml(MarginalPlan.from_toml(plan).to_toml()) == MarginalPlan.from_toml(plan)
    rows = fit(plan).sample(200, seed=0).to_pylist()
    assert all(row["sex"] == ("f" if row["ward"] == "a" else "m") for row in rows if row["ward"] is not None)


def test_a_map_from_a_file_has_one_answer_for_each_value(tmp_path):
    (tmp_path / "wards.csv").write_text("ward,sex\na,f\nb,f\na,m\n")
    (tmp_path / "plan.toml").write_text('[[maps]]\nof = "ward"\ngives = "sex"\nmap = "wards.csv"\n')
    with pytest.raises(WeftError, match=r"plan.toml, line 4: .*not a function"):
        fit(tmp_path / "plan.toml")


@pytest.mark.parametrize("method", ["mst", "aim", "independent"])
def test_methods_that_choose_for_themselves_refuse_a_plan(method):
    with pytest.raises(WeftError, match="to use a plan, choose one of dpsyn, pgm, privsyn, weave"):
        weft.Synthesizer(method=method, marginals=PLAN)


def test_what_a_method_cannot_do_is_refused():
    with pytest.raises(WeftError, match="weave cannot match marginals exactly"):
        fit(PLAN, "weave")


def test_a_plan_needs_all_columns_to_be_stated():
    with pytest.raises(WeftError, match="requires a schema that states all columns"):
        weft.Synthesizer(1.0, method="dpsyn", marginals=PLAN, journal=None).fit(make_table(200), unit=False)


@pytest.mark.parametrize("method", ["dpsyn", "privsyn", "pgm", "weave"])
def test_every_method_with_given_marginals_takes_a_plan_and_its_model_is_kept(method, tmp_path):
    plan = MarginalPlan.from_toml(PLAN.replace("exact = true\n", ""))
    made = fit(plan, method, epsilon=3.0)
    made.save(tmp_path / "model.weft")
    again = weft.load(tmp_path / "model.weft")
    rows = made.sample(150, seed=3)
    assert isinstance(rows, pa.Table) and rows.equals(again.sample(150, seed=3))
    assert MarginalPlan.read(again.options["marginals"]) == plan.at(3.0)
    assert made.ledger_.spent == pytest.approx(made.ledger_.capacity, rel=1e-6)


def test_the_smaller_noise_is_chosen_and_a_plan_can_say_otherwise():
    few = '[[marginals]]\ncolumns = ["age", "ward"]\n'
    many = few + '[[marginals]]\npairs_of = ["age", "sex", "ward", "cost"]\n' * 3
    assert fit(few).ledger_.accounting.name == "pure"
    assert fit(f'mechanism = "gaussian"\n{few}').ledger_.accounting.name == "gaussian"
    assert fit(few, accounting="gaussian").ledger_.accounting.name == "gaussian"
    assert fit(many).ledger_.accounting.name == "gaussian"
