"""Weave, Weft's own method; weave.py has its steps in order."""
