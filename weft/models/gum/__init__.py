"""GUM: adjust records step by step until they match noisy marginals."""
