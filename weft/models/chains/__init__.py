"""A dense Markov random field, sampled by Gibbs chains."""
