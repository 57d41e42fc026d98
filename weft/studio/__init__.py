"""The studio: the whole road from a private table to a released one, as pages of a browser on the same machine.

The pages do nothing by themselves. Whatever reads private rows or spends a budget is a command of `weft` that the
studio starts as a child (`jobs`), in the table's folder (`desk`), with the words that the page shows (`spoken`). So a
page can promise no more than the command line does, and what was done in it can be done again without it.
"""
