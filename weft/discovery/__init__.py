"""Private discovery: what a schema does not state, found from a share of the budget."""

from weft.discovery.discover import Discovered as Discovered
from weft.discovery.search import ROWS_PER_UNIT as ROWS_PER_UNIT
from weft.discovery.search import SHARE as SHARE
from weft.discovery.search import Search as Search
from weft.discovery.search import possible_units as possible_units
from weft.discovery.search import stated as stated
from weft.discovery.search import with_cost as with_cost
