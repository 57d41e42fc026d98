"""The nouns: names and sizes, tables over cliques, coded records, and the one kernel that counts them."""
