"""Input that nobody would give, and ends that nobody wants: `python -m tests.fuzz`, `python -m tests.fuzz.kills`."""
