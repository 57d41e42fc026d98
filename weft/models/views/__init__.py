"""Views that agree, and any marginal and records made of them."""
