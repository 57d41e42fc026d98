"""Timings and memory, printed as figures: `python -m benchmarks`."""
