"""Run every benchmark, each in a process of its own so that peak memory is its own, and print one table.

Each module beside this one has `figures() -> list[tuple[str, str]]`: what was measured, and the figure with its
target in words. `python -m benchmarks counting noise` runs only those.
"""

import json
import pkgutil
import subprocess
import sys

import benchmarks

_RUN = "import json, importlib, sys; print(json.dumps(importlib.import_module(sys.argv[1]).figures()))"


def run(name: str) -> list[list[str]]:
    """Run one benchmark; what it prints last is its figures."""
    done = subprocess.run([sys.executable, "-c", _RUN, f"benchmarks.{name}"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return [[name, f"failed with exit code {done.returncode}"]]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Print what each benchmark measured."""
    known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    names = sys.argv[1:] or known
    if unknown := set(names) - set(known):
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = False
    for name in names:
        rows = run(name)
        failed |= any(figure.startswith("failed") for _, figure in rows)
        width = max(len(what) for what, _ in rows)
        print(f"\n{name}")
        for what, figure in rows:
            print(f"  {what:<{width}}  {figure}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
