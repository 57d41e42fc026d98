"""PrivSyn (USENIX Security 2021): the method, DenseMarg, and the merging of pairs into larger marginals."""
