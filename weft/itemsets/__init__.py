"""Frequent sets of items in private baskets."""

from weft.itemsets.asking import find_itemsets as find_itemsets
from weft.itemsets.asking import form_of as form_of
from weft.itemsets.mining import Found as Found
from weft.itemsets.mining import ItemSet as ItemSet
from weft.itemsets.mining import Mining as Mining
