"""`python -m tests.fuzz --cases 3000 --seed 1`: odd input of every kind, and what the command line makes of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from .cases import KINDS
from .play import Verdict, play, warm_up


def main() -> int:
    """Play cases; print what is wrong, and how cases ended."""
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--cases", type=int, default=3000, help="how many cases to play")
    asked.add_argument("--seed", type=int, default=1, help="the first case's seed")
    asked.add_argument("--kind", choices=sorted(KINDS), action="append", help="only cases of this kind")
    asked.add_argument("--timeout", type=float, default=120.0, help="seconds after which a case hangs")
    asked.add_argument("--jobs", type=int, default=1, help="cases played at a time")
    given = asked.parse_args()
    kinds = given.kind or sorted(KINDS)
    warm_up()
    begun, wrong = time.monotonic(), 0
    ends: dict[str, Counter[int | None]] = {kind: Counter() for kind in kinds}

    def one(number: int) -> Verdict:
        return play(kinds[number % len(kinds)], given.seed + number // len(kinds), given.timeout)

    with ThreadPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(one, range(given.cases)):
            ends[verdict.kind][verdict.code] += 1
            if verdict.wrong:
                wrong += 1
                print(verdict, flush=True)
    for kind, codes in ends.items():
        print(f"{kind:10}", ", ".join(f"exit {code}: {number}" for code, number in sorted(codes.items(), key=str)))
    print(f"{given.cases} cases in {time.monotonic() - begun:.0f} s; {wrong} are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
