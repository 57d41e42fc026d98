"""The only access to private rows: queries by family, and the curator that answers them."""

from weft.curator.curator import Curator as Curator
from weft.curator.curator import DryRunCurator as DryRunCurator
from weft.curator.curator import DryRunError as DryRunError
from weft.curator.private_table import PrivateTable as PrivateTable
from weft.curator.value_queries import ValueCurator as ValueCurator
