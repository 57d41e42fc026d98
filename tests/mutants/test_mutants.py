"""Planted mistakes, each of which some test must see: the long suite fails if one of these mutants survives."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """One change to the code, and the tests that ought to fail for it."""

    file: str
    old: str
    new: str
    tests: str


MUTANTS = {
    "a marginal's sensitivity is halved": Mutant(
        "privacy/sensitivity.py",
        "return self._units\n",
        "return self._units / 2\n",
        "tests/privacy/test_sensitivity.py",
    ),
    "noise is half as large": Mutant(
        "privacy/mechanisms.py",
        "[a + self._noise.gaussian(s, a.shape)",
        "[a + self._noise.gaussian(s / 2, a.shape)",
        "tests/audit/test_replay.py",
    ),
    "a charge is not entered in the lifetime budget": Mutant(
        "privacy/ledger.py", "self._account.charge(entry)", "pass", "tests/privacy/test_lifetime.py"
    ),
    "a filter forgets what others hold": Mutant(
        "privacy/lifetime.py", "state.spent + others <=", "state.spent <=", "tests/privacy/test_lifetime.py"
    ),
    "a pure price is that of a Gaussian": Mutant(
        "privacy/charge.py",
        "pure_mu(factor * ratio) ** 2 / 2",
        "(factor * ratio) ** 2 / 2",
        "tests/privacy/test_filters.py",
    ),
    "a stray quote is let through": Mutant(
        "reading/dialect.py", "fault = _STRAY\n                break", "pass", "tests/schema/test_dialect.py"
    ),
    "an open quote at the end is let through": Mutant(
        "reading/dialect.py", "self._check(_OPEN)", "pass", "tests/schema/test_dialect.py"
    ),
    "queries may join": Mutant(
        "engines/queries.py",
        '_ROWWISE = {"PROJECTION",',
        '_ROWWISE = {"HASH_JOIN", "SEQ_SCAN", "PROJECTION",',
        "tests/engines/test_queries.py",
    ),
    "guessed stamps are believed": Mutant(
        "engines/frames.py", "or pa.types.is_timestamp(declared)", "", "tests/engines/test_frames.py"
    ),
    "merged floats are taken": Mutant(
        "engines/frames.py", "(np.abs(floats) >= _EXACT).any()", "False", "tests/engines/test_frames.py"
    ),
    "rare neighbours are merged across what stands apart": Mutant(
        "marginals/recode.py", "rare[list(order.apart)] = False", "pass", "tests/test_recode.py"
    ),
    "correlated parents count as two": Mutant(
        "select/cfs.py", "np.sqrt(len(parents) + 1 + shared)", "np.sqrt(len(parents) + 1)", "tests/select/test_cfs.py"
    ),
    "theta has no effect": Mutant(
        "methods/privmrf.py", "total / (self.theta * float(", "total / (float(", "tests/methods/test_privmrf.py"
    ),
    "refinement takes what is modelled best": Mutant(
        "methods/privmrf.py",
        "np.argsort(-merit)[:wanted]",
        "np.argsort(merit)[:wanted]",
        "tests/methods/test_privmrf.py",
    ),
    "the authors' alpha does not decay": Mutant(
        "models/gum/model.py",
        '"iterations": 100, "length": 20',
        '"iterations": 100, "length": 200',
        "tests/models/test_gum.py",
    ),
    "a release is moved before its older card is gone": Mutant(
        "release/verify.py", "if sha256(table) != facts", "if False and sha256(table) != facts", "tests/test_verify.py"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(name, tmp_path):
    mutant = MUTANTS[name]
    shutil.copytree(ROOT / "weft", tmp_path / "weft", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "weft" / mutant.file
    text = file.read_text()
    assert text.count(mutant.old) >= 1, "the code has changed: mend the mutant"
    file.write_text(text.replace(mutant.old, mutant.new, 1))
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", mutant.tests],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        capture_output=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout.decode()[-2000:]
