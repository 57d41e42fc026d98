"""PrivSyn (USENIX Security 2021): the method, and DenseMarg with the merging of pairs into larger marginals."""
