"""A table's lifetime budget: every charge on record, nothing overspent, whatever processes, crashes and hands do."""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.errors import BudgetError, DataError, OutputError
from weft.privacy import Adjacency, Budget, Charge, Ledger, Lifetime, read_journal
from weft.privacy.filters import compute_capacity, slack_capacity
from weft.privacy.hash_chain import Chain
from weft.privacy.ledger import open_run_ledger, sum_earlier_runs
from weft.privacy.lifetime import describe_owner, is_gone

TABLE = Budget(epsilon=3.0, delta=1e-6)
RUN = Budget(epsilon=1.0, delta=1e-6)
NEIGHBOURS = Adjacency()


@pytest.fixture
def lifetime(tmp_path):
    return Lifetime.create(tmp_path / "clinic.budget", TABLE, table="patients 2024")


def begun(lifetime, budget=RUN, accounting="gaussian", unit="row", adjacency=NEIGHBOURS):
    return lifetime.begin(adjacency, unit, budget, accounting, method="independent")


def question(rho, part="", name="count"):
    charge = Charge.gaussian(name, sensitivity=1.0, scale=(1 / (2 * rho)) ** 0.5, draws=4)
    from dataclasses import replace

    return replace(charge, part=part)


def test_a_new_file_is_empty_and_an_old_one_is_kept(lifetime):
    state = lifetime.state()
    assert (state.spent, state.held, dict(state.runs), state.protects) == (0.0, 0.0, {}, None)
    assert state.left == state.capacity == compute_capacity(TABLE, "gaussian")
    assert state.facts["table"] == "patients 2024"
    with pytest.raises(OutputError, match="already exists"):
        Lifetime.create(lifetime.path, TABLE)
    with pytest.raises(DataError, match="weft budget create"):
        Lifetime(lifetime.path.with_name("none.budget")).state()
    with pytest.raises(OutputError, match="cannot write"):
        Lifetime.create(lifetime.path.parent / "no" / "folder.budget", TABLE)


@pytest.mark.parametrize(
    ("budget", "accounting"),
    [
        (Budget(rho=1.0), None),
        (TABLE, "pure"),
        (Budget(epsilon=1.0, delta=0), "zcdp"),
        (Budget(epsilon=50.0, insecure=True), None),
    ],
)
def test_budgets_without_a_meaning_are_refused(tmp_path, budget, accounting):
    with pytest.raises(BudgetError):
        Lifetime.create(tmp_path / "x.budget", budget, accounting=accounting)
    assert not (tmp_path / "x.budget").exists()


def test_charges_are_entered_before_they_count_and_what_is_left_over_comes_back(lifetime):
    account = begun(lifetime)
    whole = RUN.capacity("gaussian")
    state = lifetime.state()
    assert state.held == pytest.approx(whole) and state.left == pytest.approx(state.capacity - whole)
    account.charge(question(whole / 4))
    state = lifetime.state()
    assert state.spent == pytest.approx(whole / 4) and state.held == pytest.approx(whole * 3 / 4)
    account.end()
    account.end()
    state = lifetime.state()
    assert state.held == 0 and state.left == pytest.approx(state.capacity - whole / 4)
    (run,) = state.runs.values()
    assert run.charges == 1 and run.ended and run.facts["method"] == "independent"


def test_runs_are_refused_before_they_begin_when_the_rest_cannot_pay(lifetime):
    fitted = 0
    with pytest.raises(BudgetError, match=r"has .*% left, and this run may cost .*Use an epsilon of at most 0\.[0-9]+"):
        while True:
            account = begun(lifetime)
            account.charge(question(RUN.capacity("gaussian")))
            account.end()
            fitted += 1
    state = lifetime.state()
    assert len(state.runs) == fitted and state.spent <= state.capacity
    # mu^2 adds up, and epsilon does not: more than three runs of epsilon 1 fit into epsilon 3.
    assert fitted == int(state.capacity / RUN.capacity("gaussian")) > 3
    rest = begun(lifetime, Budget(epsilon=0.01, delta=1e-6))
    rest.charge(question(state.left))
    rest.end()
    with pytest.raises(BudgetError, match="No further query is possible"):
        begun(lifetime, Budget(epsilon=0.01, delta=1e-6))


def test_a_charge_above_what_is_left_is_refused_and_leaves_no_trace(lifetime):
    account = begun(lifetime)
    before = lifetime.state()
    with pytest.raises(BudgetError, match="would overspend the lifetime budget"):
        account.charge(question(before.capacity * 1.01))
    assert lifetime.state() == before
    account.charge(question(before.capacity))
    with pytest.raises(BudgetError):
        account.charge(question(1e-6))


def test_what_a_run_has_set_aside_cannot_be_taken_by_another(lifetime):
    whole = lifetime.state().capacity
    large = Budget(epsilon=2.9, delta=1e-6)
    first = begun(lifetime, large)
    with pytest.raises(BudgetError, match="Active runs have reserved part of it"):
        begun(lifetime)
    first.end()
    second = begun(lifetime, Budget(epsilon=0.5, delta=1e-6))
    third = begun(lifetime, Budget(epsilon=0.5, delta=1e-6))
    with pytest.raises(BudgetError):
        second.charge(question(whole - third.lifetime.state().runs[third.run].held + 1e-3))


def test_parts_of_the_rows_cost_what_the_dearest_does(lifetime):
    account = begun(lifetime)
    for part, rho in (("", 0.01), ("a", 0.02), ("b", 0.03), ("b", 0.01)):
        account.charge(question(rho, part))
    assert lifetime.state().spent == pytest.approx(0.05)


def test_other_neighbours_and_other_units_do_not_add_up(lifetime, tmp_path):
    begun(lifetime, unit="patient", adjacency=Adjacency("add-remove", 3)).end()
    begun(lifetime, unit="patient", adjacency=Adjacency("add-remove", 1)).end()
    with pytest.raises(BudgetError, match="protects one patient, this run one row"):
        begun(lifetime)
    with pytest.raises(BudgetError, match="replace-one"):
        begun(lifetime, unit="patient", adjacency=Adjacency("replace-one"))


def test_pure_and_mixed_runs(tmp_path):
    pure = Lifetime.create(tmp_path / "pure.budget", Budget(epsilon=2.0, delta=0))
    assert pure.state().filter == "pure"
    with pytest.raises(BudgetError, match="this lifetime budget is pure"):
        begun(pure)
    account = begun(pure, Budget(epsilon=1.0, delta=0), "pure")
    account.charge(Charge.geometric("q", sensitivity=1.0, scale=1.1, draws=1))
    with pytest.raises(BudgetError, match="has no pure epsilon"):
        account.charge(question(0.01))
    mixed = Lifetime.create(tmp_path / "mixed.budget", TABLE, accounting="zcdp")
    account = begun(mixed, accounting="zcdp")
    account.charge(question(0.01))
    account.charge(Charge.geometric("q", sensitivity=1.0, scale=10.0, draws=1))
    assert mixed.state().spent == pytest.approx(0.01 + 0.005)


def test_slack_is_paid_from_what_was_set_aside(lifetime):
    from dataclasses import replace

    account = begun(lifetime)
    allowed = slack_capacity(TABLE)
    account.charge(replace(question(0.01), slack=allowed * 0.6))
    with pytest.raises(BudgetError, match="more of delta"):
        account.charge(replace(question(0.01), slack=allowed * 0.6))
    account.charge(replace(question(0.01), slack=allowed * 0.3))
    assert lifetime.state().slack <= allowed


def rows(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT number, document, hash FROM entries ORDER BY number").fetchall()


def tampered(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement, values in statements:
            connection.execute(statement, values)


@pytest.mark.parametrize("kind", ["edit", "cut", "cut with head", "middle", "reorder", "empty", "rubbish", "truncate"])
def test_edits_and_cut_tails_are_noticed(lifetime, kind):
    account = begun(lifetime)
    for number in range(3):
        account.charge(question(0.01, name=f"count {number}"))
    path, entries = lifetime.path, rows(lifetime.path)
    last, document, _ = entries[-1]
    if kind == "edit":
        cheaper = json.dumps(json.loads(document) | {"cost": 0.0}, sort_keys=True, separators=(",", ":"))
        tampered(path, ("UPDATE entries SET document = ? WHERE number = ?", (cheaper, last)))
    elif kind == "cut":
        tampered(path, ("DELETE FROM entries WHERE number = ?", (last,)))
    elif kind == "cut with head":
        tampered(path, ("DELETE FROM entries WHERE number = ?", (last,)), ("UPDATE head SET number = ?", (last - 1,)))
    elif kind == "middle":
        tampered(path, ("DELETE FROM entries WHERE number = ?", (2,)))
    elif kind == "reorder":
        swap = [("UPDATE entries SET document = ? WHERE number = ?", (entries[a][1], b)) for a, b in ((2, 3), (3, 2))]
        tampered(path, *swap)
    elif kind == "empty":
        tampered(path, ("DELETE FROM entries", ()))
    elif kind == "rubbish":
        path.write_bytes(b"no database at all " * 99)
    else:
        path.write_bytes(path.read_bytes()[:-4096])
    for ask in (lifetime.state, lambda: begun(lifetime), lambda: account.charge(question(0.001))):
        with pytest.raises((DataError, OutputError)):
            ask()


def spend(path, times):
    """Charge a little, again and again, until it is refused; from several processes at once."""
    lifetime = Lifetime(path)
    done = 0
    for _ in range(times):
        try:
            account = lifetime.begin(NEIGHBOURS, "row", Budget(epsilon=0.2, delta=1e-6), "gaussian")
            account.charge(question(Budget(epsilon=0.2, delta=1e-6).capacity("gaussian")))
            account.end()
            done += 1
        except BudgetError:
            pass
    return done


def test_two_processes_at_once_never_overspend(lifetime):
    lifetime = Lifetime.create(lifetime.path.with_name("small.budget"), Budget(epsilon=0.6, delta=1e-6))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        done = sum(pool.starmap(spend, [(lifetime.path, 8)] * 2))
    state = lifetime.state()
    charge = Budget(epsilon=0.2, delta=1e-6).capacity("gaussian")
    assert sum(run.charges for run in state.runs.values()) == done == int(state.capacity // charge)
    assert state.spent <= state.capacity < state.spent + charge


def test_a_killed_run_keeps_its_charges_and_gives_back_the_rest(lifetime):
    program = textwrap.dedent(f"""
        import sys, time
        from weft.privacy import Adjacency, Budget, Charge, Lifetime
        lifetime = Lifetime({str(lifetime.path)!r})
        account = lifetime.begin(Adjacency(), "row", Budget(epsilon=2.5, delta=1e-6), "gaussian")
        account.charge(Charge.gaussian("q", sensitivity=1.0, scale=10.0, draws=1))
        print("charged", flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "charged"
    assert lifetime.state().held > 0
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    state = lifetime.state()
    assert state.held == 0 and state.spent == pytest.approx(0.005)


def test_a_run_of_another_machine_is_taken_to_be_alive_until_somebody_says_otherwise(lifetime, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    account = begun(lifetime)
    monkeypatch.undo()
    assert lifetime.state().held > 0
    lifetime.end(account.run)
    assert lifetime.state().held == 0
    with pytest.raises(DataError, match="has no run"):
        lifetime.end("nobody")


@pytest.mark.parametrize("name", ["_read_boot", "_read_namespace"])
def test_a_process_that_cannot_be_seen_from_here_is_taken_to_be_alive(lifetime, monkeypatch, name):
    """Two containers with one host name have processes of the same numbers."""
    monkeypatch.setattr(f"weft.privacy.lifetime.{name}", lambda: "another one")
    monkeypatch.setattr("os.getpid", lambda: 999_999_999)
    begun(lifetime)
    monkeypatch.undo()
    assert lifetime.state().held > 0


@pytest.mark.parametrize("key", ["boot", "namespace", "started"])
def test_an_owner_of_whom_too_little_is_known_is_taken_to_be_alive(key):
    owner = describe_owner()
    assert not is_gone(owner)
    assert not is_gone(owner | {key: ""})
    assert is_gone(owner | {"started": "1"}) and not is_gone({"host": owner["host"], "pid": 1, "started": "1"})


def test_a_process_whose_start_is_hidden_is_taken_to_be_alive(monkeypatch):
    owner = describe_owner()
    monkeypatch.setattr("weft.privacy.lifetime._read_start", lambda _: "")
    assert not is_gone(owner)


def test_containers_with_one_host_name_leave_each_others_reservations(lifetime):
    unshare = [shutil.which("unshare") or "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    program = textwrap.dedent(f"""
        import time
        from weft.privacy import Adjacency, Budget, Lifetime
        lifetime = Lifetime({str(lifetime.path)!r})
        lifetime.begin(Adjacency(), "row", Budget(epsilon=2.5, delta=1e-6), "gaussian")
        print("begun", flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen([*unshare, sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "begun"
        assert lifetime.state().held > 0
        with pytest.raises(BudgetError, match="weft budget release"):
            begun(lifetime, Budget(epsilon=2.5, delta=1e-6))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_ledger_enters_its_charges_and_says_so(lifetime, tmp_path):
    ledger = Ledger(RUN, "gaussian", NEIGHBOURS, journal=tmp_path / "j.jsonl", lifetime=begun(lifetime))
    ledger.charge(question(0.01, name="one"))
    assert lifetime.state().spent == pytest.approx(0.01)
    with pytest.raises(BudgetError, match="of the budget"):
        ledger.charge(question(10.0))
    assert lifetime.state().spent == pytest.approx(0.01)
    ledger.close()
    assert lifetime.state().held == 0
    said = ledger.to_dict()["lifetime"]
    assert said["epsilon"] == 3.0 and said["table"] == "patients 2024"
    assert said["head"] == lifetime.state().hashes[-1]
    assert Ledger.from_dict(ledger.to_dict()).lifetime == said
    assert Ledger(RUN, "gaussian", NEIGHBOURS).to_dict()["lifetime"] is None


def test_a_full_disk_or_read_only_file_is_told_and_nothing_is_asked(lifetime):
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    account = begun(lifetime)
    lifetime.path.chmod(0o444)
    with pytest.raises(OutputError, match="lifetime budget"):
        account.charge(question(0.01))


class Interrupting(Chain):
    """Has another run write between the two statements of a read, if the file allows it."""

    @contextmanager
    def _opened(self):
        with super()._opened() as connection:
            self.writer = threading.Thread(target=begun, args=(Lifetime(self.path),))
            yield Interrupted(connection, self.writer)


class Interrupted:
    def __init__(self, connection, writer):
        self.connection, self.writer = connection, writer

    def execute(self, statement):
        if "FROM head" in statement:
            self.writer.start()
            self.writer.join(timeout=1.0)
        return self.connection.execute(statement)


def test_a_read_sees_one_moment_while_another_run_writes(lifetime):
    chain = Interrupting(lifetime.path)
    assert len(chain.read().documents) == 1
    chain.writer.join(timeout=60)
    assert len(lifetime.state().runs) == 1


def test_runs_before_the_file_are_part_of_its_total(tmp_path):
    """Their budgets are taken off the total, whatever they spent of it; the filter gets the rest."""
    ledgers = []
    for number, epsilon in enumerate((0.5, 0.7)):
        terms = Adjacency(), "row", Budget(epsilon=epsilon, delta=1e-7), "gaussian"
        place = tmp_path / f"{number}.ledger.jsonl"
        with open_run_ledger(terms, None, journal=place, stamps=(), facts={"method": "m", "source": "s"}) as ledger:
            ledger.charge(question(ledger.left / 2))
        ledgers += read_journal(place)
    earlier = sum_earlier_runs(ledgers)
    assert earlier["epsilon"] == pytest.approx(1.2) and earlier["delta"] == 2e-7 and earlier["runs"] == 2
    with pytest.raises(BudgetError, match="have spent epsilon"):
        Lifetime.create(tmp_path / "small.budget", Budget(epsilon=1.1, delta=1e-6), earlier=earlier)
    with pytest.raises(BudgetError, match="not replace-one"):
        Lifetime.create(tmp_path / "other.budget", TABLE, relation="replace-one", earlier=earlier)
    made = Lifetime.create(tmp_path / "clinic.budget", Budget(epsilon=3.0, delta=1e-6), earlier=earlier)
    state, rest = made.state(), Lifetime.create(tmp_path / "rest.budget", Budget(epsilon=1.8, delta=8e-7)).state()
    assert state.capacity == pytest.approx(rest.capacity)
    with pytest.raises(BudgetError, match="protects one row, this run one person"):
        made.check(Adjacency(), "person", Budget(epsilon=0.1, delta=1e-7), "gaussian")
    assert begun(made, Budget(epsilon=0.1, delta=1e-7)).statement()["epsilon"] == 3.0
    shown = CliRunner().invoke(app, ["budget", "show", str(made.path)]).output
    assert "epsilon 1.2 at delta 2e-07, by 2 runs before this budget" in " ".join(shown.split())


def test_runs_that_do_not_add_up_are_in_no_total(tmp_path):
    runs = []
    for unit in ("row", "person"):
        terms, place = (Adjacency(), unit, Budget(epsilon=0.5, delta=1e-7), "gaussian"), tmp_path / f"{unit}.jsonl"
        with open_run_ledger(terms, None, journal=place, stamps=(), facts={"method": "m", "source": "s"}) as ledger:
            ledger.charge(question(ledger.left))
        runs += read_journal(place)
    with pytest.raises(BudgetError, match="do not add up"):
        sum_earlier_runs(runs)
