"""GUM: records adjusted, step by step, until they agree with noisy tables."""
