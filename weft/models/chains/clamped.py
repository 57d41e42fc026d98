"""Chains held to evidence: they start from an exact draw of the forest under it, and never leave it.

The forest is a tree, so that its distribution under evidence is exact and quick to have. The sweeps then follow the
conditional distributions of all potentials, with the evidence as one more. Feedback towards the targets (`herd`) is
left out: they are those of all records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models.chains.forest import Forest
from weft.models.chains.layout import Layout, flatten
from weft.models.chains.model import BLOCK, Chains, ChainsModel, to_records
from weft.models.evidence import Evidence, logarithms
from weft.models.mrf.inference import Beliefs, marginals
from weft.models.mrf.junction import junction_tree
from weft.models.mrf.sample import sample
from weft.progress import Listener, silence, stage


@dataclass(frozen=True)
class ClampedChains:
    """Records of chains that are held to evidence."""

    chains: Chains
    start: Beliefs
    sweeps: int

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records."""
        drawn = sample(self.start, n, rng)
        rows = np.ascontiguousarray(np.stack([column.astype(np.int32) for column in drawn.columns], axis=1))

        def weave(records: Array, seed: np.uint64) -> None:
            for sweep in np.random.default_rng(int(seed)).integers(0, 1 << 63, self.sweeps, dtype=np.uint64):
                self.chains.sweep(records, sweep)

        with stage(listener, "weave", -(-n // BLOCK)) as work:
            for _ in self.chains.each_block(rows, weave, rng):
                work.advance()
        return to_records(self.chains.layout.domain, rows)


def clamped(model: ChainsModel, chains: Chains, evidence: Evidence) -> ClampedChains:
    """Return a model's chains, held to evidence; Impossible if its forest has no record that fits."""
    start = _start(model.domain, chains.forest, evidence)
    logs = [logarithms(weights) for weights in evidence.values()]
    layout = Layout(model.domain, (*model.cliques, *((name,) for name in evidence)))
    return ClampedChains(Chains(layout, chains.forest, flatten([*model.potentials, *logs])), start, model.sweeps)


def _start(domain: Domain, tree: Forest, evidence: Evidence) -> Beliefs:
    """Return the forest's own distribution under evidence."""
    potentials: dict[Clique, Array] = {(name,): logarithms(weights) for name, weights in evidence.items()}
    for j, name in enumerate(domain):
        size, above = domain.size(name), int(tree.parent[j])
        rows = 1 if above < 0 else domain.size(domain.names[above])
        given = tree.log_given[tree.start[j] : tree.start[j] + rows * size].reshape(rows, size)
        if above < 0:
            potentials[(name,)] = potentials.get((name,), 0.0) + given[0]
        else:
            edge = clique((domain.names[above], name))
            potentials[edge] = given if edge[1] == name else given.T
    most = max([domain.cells(c) for c in potentials])
    return marginals(junction_tree(domain, potentials, max_cells=most, max_total=1 << 28), potentials, 1.0)
