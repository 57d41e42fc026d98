"""From a request to a fitted model: the synthesizer, discovery, plans of marginals, and the model file."""
