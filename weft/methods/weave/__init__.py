"""Weave, Weft's own method: its steps in the order of a fit are in weave.py."""
