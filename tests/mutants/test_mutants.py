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

    @property
    def path(self) -> str:
        """The file, from the project's root."""
        return self.file if self.file.startswith("lab/") else f"weft/{self.file}"


MUTANTS = {
    "a marginal's sensitivity is halved": Mutant(
        "privacy/sensitivity.py",
        "return self._units\n",
        "return self._units / 2\n",
        "tests/privacy/test_sensitivity.py",
    ),
    "noise is half as large": Mutant(
        "privacy/mechanisms/mechanism.py",
        "[a + self.draw(s, a.shape, noise)",
        "[a + self.draw(s / 2, a.shape, noise)",
        "tests/audit/test_replay.py",
    ),
    "a charge is not entered in the lifetime budget": Mutant(
        "privacy/ledger.py", "self._account.charge(entry)", "pass", "tests/privacy/test_lifetime.py"
    ),
    "a filter forgets what others hold": Mutant(
        "privacy/lifetime.py", "state.spent + others <=", "state.spent <=", "tests/privacy/test_lifetime.py"
    ),
    "a pure price is that of a Gaussian": Mutant(
        "privacy/mechanisms/mechanism.py",
        "pure_mu(epsilon) ** 2 / 2",
        "epsilon**2 / 2",
        "tests/privacy/test_filters.py",
    ),
    "a stray quote is let through": Mutant(
        "io/csv_scan.py", "fault = _STRAY\n                break", "pass", "tests/schema/test_dialect.py"
    ),
    "an open quote at the end is let through": Mutant(
        "io/csv_scan.py", "self._check(_OPEN)", "pass", "tests/schema/test_dialect.py"
    ),
    "queries may join": Mutant(
        "io/duckdb_source.py",
        '_ROWWISE = {"PROJECTION",',
        '_ROWWISE = {"HASH_JOIN", "SEQ_SCAN", "PROJECTION",',
        "tests/engines/test_queries.py",
    ),
    "guessed stamps are believed": Mutant(
        "engines/frames.py", "or pa.types.is_timestamp(declared)", "", "tests/engines/test_frames.py"
    ),
    "merged floats are taken": Mutant(
        "values/canonical.py",
        "if (np.isfinite(floats) & (np.abs(floats) >= EXACT)).any():",
        "if False:",
        "tests/engines/test_frames.py tests/attack/test_guessed_types.py",
    ),
    "rare neighbours are merged across what stands apart": Mutant(
        "marginals/value_groups.py", "rare[list(order.apart)] = False", "pass", "tests/test_recode.py"
    ),
    "correlated parents count as two": Mutant(
        "lab/weft_lab/methods/bsg/entropy_network.py",
        "np.sqrt(len(parents) + 1 + shared)",
        "np.sqrt(len(parents) + 1)",
        "tests/select/test_cfs.py",
    ),
    "theta has no effect": Mutant(
        "lab/weft_lab/methods/candidates.py",
        "total / (theta * float(",
        "total / (float(",
        "tests/methods/test_privmrf.py",
    ),
    "refinement takes what is modelled best": Mutant(
        "lab/weft_lab/methods/privmrf.py",
        "np.argsort(-merit)[:wanted]",
        "np.argsort(merit)[:wanted]",
        "tests/methods/test_privmrf.py",
    ),
    "the authors' alpha does not decay": Mutant(
        "models/gum/gum_model.py", '"length": 20,', '"length": 200,', "tests/models/test_gum.py"
    ),
    "eq. 8 forgets how many a family has": Mutant(
        "lab/weft_lab/methods/candidates.py",
        "np.maximum(members + within, 1.0)",
        "np.maximum(within, 1.0)",
        "tests/methods/test_privmrf.py",
    ),
    "eq. 8 forgets what a family's members share": Mutant(
        "lab/weft_lab/methods/candidates.py",
        "np.maximum(members + within, 1.0)",
        "np.maximum(members, 1.0)",
        "tests/methods/test_privmrf.py",
    ),
    "a weighted choice is as sensitive as one that is not": Mutant(
        "lab/weft_lab/queries/selection_queries.py",
        "max(heavy) * self._adjacency.gap()",
        "self._adjacency.gap()",
        "tests/methods/test_published_boxes.py",
    ),
    "draws of cells forget what counts are multiplied by": Mutant(
        "lab/weft_lab/queries/selection_queries.py",
        "times * self._adjacency.cell()",
        "self._adjacency.cell()",
        "tests/methods/test_dualquery.py",
    ),
    "many draws cost as much as one": Mutant(
        "privacy/mechanisms/exponential.py",
        "return each * charge.draws",
        "return each",
        "tests/privacy/test_selection.py",
    ),
    "a selection costs half of its range": Mutant(
        "privacy/conversions.py",
        "return pure_mu(epsilon / 2)",
        "return pure_mu(epsilon / 4)",
        "tests/privacy/test_filters.py",
    ),
    "a row's gradient keeps its length": Mutant(
        "lab/weft_lab/network_gradients.py", "np.abs(g) * STEPS // length", "np.abs(g)", "tests/methods/test_dp_wgan.py"
    ),
    "classes of likelihood are wider than gamma": Mutant(
        "lab/weft_lab/queries/plausible_seeds.py",
        "/ math.log(gamma)",
        "/ math.log(2 * gamma)",
        "tests/privacy/test_buckets.py",
    ),
    "what a preset sets wins over the user": Mutant(
        "methods/common/options.py", "{**paper, **options}", "{**options, **paper}", "tests/methods/test_presets.py"
    ),
    "an experiment has a budget that was not published": Mutant(
        "lab/weft_lab/catalogue/privmrf.py",
        "(0.1, 0.2, 0.4, 0.8, 1.6, 3.2)",
        "(0.1, 0.2, 0.4, 0.8, 1.2, 3.2)",
        "tests/bench/test_published.py",
    ),
    "an experiment has a parameter that was not published": Mutant(
        "lab/weft_lab/settings.py",
        "for picks in (0.4, 0.8, 1.2)",
        "for picks in (0.4, 0.8, 1.6)",
        "tests/bench/test_published.py",
    ),
    "a statement of a paper is turned round": Mutant(
        "lab/weft_lab/verdicts.py",
        "sign = 1 if larger_is_better(measure) else -1",
        "sign = -1 if larger_is_better(measure) else 1",
        "tests/bench/test_verdicts.py",
    ),
    "what lies within the spread is taken for a difference": Mutant(
        "lab/weft_lab/verdicts.py",
        "if abs(middle) <= (stdev(differences) if len(differences) > 1 else 0.0):",
        "if middle == 0:",
        "tests/bench/test_verdicts.py",
    ),
    "an experiment tests seeds by another k": Mutant(
        "lab/weft_lab/settings.py", '"deniability", "k": 50}', '"deniability", "k": 5}', "tests/bench/test_published.py"
    ),
    "DenseMarg reckons with the whole budget": Mutant(
        "methods/privsyn.py", "curator.rho(curator.left)", "curator.rho(1.0)", "tests/methods/test_privsyn.py"
    ),
    "pairs are not combined": Mutant(
        "methods/privsyn.py",
        "return combine_cliques(",
        "return pairs or combine_cliques(",
        "tests/methods/test_privsyn.py",
    ),
    "the tree is the lightest": Mutant(
        "lab/weft_lab/methods/mst.py",
        "spanning_tree(weights) if",
        "spanning_tree({c: -w for c, w in weights.items()}) if",
        "tests/methods/test_mst.py",
    ),
    "a tree takes what gains less than its noise": Mutant(
        "lab/weft_lab/methods/tree.py",
        "best_subset([gaps[c] for c",
        "best_subset([2 * gaps[c] for c",
        "tests/methods/test_tree.py",
    ),
    "AIM does not weigh a candidate by the workload": Mutant(
        "lab/weft_lab/methods/aim.py", "self.weights * (self.errors", "(self.errors", "tests/methods/test_aim.py"
    ),
    "AIM never anneals": Mutant(
        "lab/weft_lab/methods/aim.py", "self.share *= self.options.anneal", "pass", "tests/methods/test_aim.py"
    ),
    "PrivBayes offers tables that are not useful": Mutant(
        "lab/weft_lab/methods/privbayes.py",
        "math.sqrt(2), self.theta",
        "math.sqrt(2), 1.0",
        "tests/methods/test_privbayes.py",
    ),
    "BSG offers tables that are not useful": Mutant(
        "lab/weft_lab/methods/bsg/entropy_network.py",
        "sigma, self.theta)",
        "sigma, 1.0)",
        "tests/methods/test_bsg_model.py",
    ),
    "a family that does not fit gives up its narrowest parent": Mutant(
        "lab/weft_lab/methods/comparison_steps.py",
        "largest = max(parents",
        "largest = min(parents",
        "tests/methods/test_pb_pgm.py",
    ),
    "PGM leaves out what it has measured": Mutant(
        "lab/weft_lab/methods/pgm.py",
        "*columns.tables, *noisy]",
        "*columns.tables, *noisy[1:]]",
        "tests/methods/test_pgm.py",
    ),
    "weave believes what noise made of many candidates": Mutant(
        "methods/weave/batch_selection.py",
        "unclear = seen < MIN_CLEAR_DEVIATIONS * sigma",
        "unclear = seen < -np.inf",
        "tests/select/test_believed_gaps.py tests/methods/test_weave.py",
    ),
    "geometric noise is divided as Gaussian noise": Mutant(
        "privacy/mechanisms/geometric.py",
        "allocation_exponent = 1 / 2",
        "allocation_exponent = 2 / 3",
        "tests/methods/test_pgm.py",
    ),
    "records grown from seeds count as a model": Mutant(
        "lab/weft_lab/methods/bsg/seeded_records.py",
        "fixed_records: ClassVar[bool] = True",
        "fixed_records: ClassVar[bool] = False",
        "tests/methods/test_bsg.py tests/models/test_sequential.py",
    ),
    "a release is moved before its older card is gone": Mutant(
        "release/verification.py",
        'hash_file(table)) == facts["table"]["sha256"]',
        "hash_file(table)) != None",
        "tests/test_verify.py",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_can_be_made(name):
    mutant = MUTANTS[name]
    assert mutant.old in (ROOT / mutant.path).read_text(), "the code has changed: mend the mutant"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(name, tmp_path):
    mutant = MUTANTS[name]
    for folder in ("weft", "lab"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / mutant.path
    text = file.read_text()
    file.write_text(text.replace(mutant.old, mutant.new, 1))
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *mutant.tests.split()],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'lab'}", "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        capture_output=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout.decode()[-2000:]
