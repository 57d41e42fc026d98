"""Entropies of marginals, for the structure of BSG's network (PVLDB 2017, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.curator.score_queries import ScoreQueries
from weft.display import format_count
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array
from weft.marginals.value_groups import sum_by_codes
from weft.privacy.selection import floor_to_grid

ENTROPY_STEPS = 1000
"""Steps per sensitivity of an entropy, for the integer grid on which entropies are released."""


class EntropyQueries(ScoreQueries):
    """Entropy queries, over the rows of a curator (`QueryBase.of`)."""

    def entropies(
        self, cliques: Sequence[Clique], share: float, rows: int, buckets: Sequence[Mapping[str, Array]] | None = None
    ) -> Array:
        """Return the noisy entropy of each marginal, in bits, times min(1, n / rows): the entropy itself if n >= rows.

        `buckets[i][name]` maps each code of an attribute of clique i to a bucket. Both must be public or released.

        Privacy: buckets act on values, so a row is still in one cell. A unit changes each answer by at most s =
        `entropy(rows)` for every table, large or small: below `rows` rows the entropy is scaled down so that this
        holds. Answers are floored to multiples of a thousandth of s (plus 1e-11, far above the error of the sums), so
        each changes by at most 1000 steps, and m of them form one vector of L2 sensitivity 1000 sqrt(m).
        """
        each = self._adjacency.entropy(rows) + 1e-11
        for c, seen in zip(cliques, buckets or [], strict=bool(buckets)):
            if any(len(codes) != self.domain.size(name) or name not in c for name, codes in seen.items()):
                raise ValueError("every code of a bucketed attribute needs a bucket")

        def score(table: Array, i: int) -> int:
            for name, codes in (buckets[i] if buckets else {}).items():
                table = sum_by_codes(table, codes, int(codes.max()) + 1, cliques[i].index(name))
            n = int(table.sum())
            return int(floor_to_grid([compute_entropy(table, n) * min(1.0, n / rows)], each, ENTROPY_STEPS)[0])

        released = self._scores(
            "scores", f"entropies of {format_count(len(cliques), 'marginal')}", cliques, ENTROPY_STEPS, share, score
        )
        return np.asarray(released * (each / ENTROPY_STEPS))


def compute_entropy(table: Array, n: int) -> float:
    """Return the entropy of a table with n rows, in bits."""
    share = table[table > 0] / max(n, 1)
    return float(-(share * np.log2(share)).sum()) if share.size else 0.0
