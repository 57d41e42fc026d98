"""Methods that the papers compare with and that nobody would choose for a release: MWEM, DualQuery and DP-Copula."""
