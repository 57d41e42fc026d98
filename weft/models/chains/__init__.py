"""Dense Markov random field, sampled by Gibbs chains."""
