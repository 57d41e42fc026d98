"""Value types (domains, cliques, marginals, coded records), the counting kernel, and estimators for noisy marginals."""
