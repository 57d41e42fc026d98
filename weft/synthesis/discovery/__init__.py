"""Discovery: find column kinds, ranges and values that a schema does not state, for a share of the budget."""

from weft.synthesis.discovery.entries import Discovered as Discovered
from weft.synthesis.discovery.search import MAX_ROWS_PER_UNIT as MAX_ROWS_PER_UNIT
from weft.synthesis.discovery.search import SHARE as SHARE
from weft.synthesis.discovery.search import Search as Search
from weft.synthesis.discovery.search import collect_stated_facts as collect_stated_facts
from weft.synthesis.discovery.search import possible_units as possible_units
from weft.synthesis.discovery.search import rows_needed as rows_needed
from weft.synthesis.discovery.search import states_person as states_person
from weft.synthesis.discovery.search import with_cost as with_cost
