"""Turn a fit request into a fitted model: synthesizer, discovery, marginal plans and model file."""
