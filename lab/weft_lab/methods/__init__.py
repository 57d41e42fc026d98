"""Methods for comparison, not for releases: baselines of the papers, and two earlier methods of our own."""
