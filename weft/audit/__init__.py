"""Attempts to break the guarantee: what an attacker, or a careful reviewer, would try."""
