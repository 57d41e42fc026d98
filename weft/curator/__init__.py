"""The only door to private rows: the questions by family, and the curator who answers them."""

from weft.curator.curator import Curator as Curator
from weft.curator.opening import PrivateTable as PrivateTable
from weft.curator.rehearsal import Rehearsal as Rehearsal
from weft.curator.rehearsal import RehearsedError as RehearsedError
from weft.curator.scores import ENTROPY_STEPS as ENTROPY_STEPS
from weft.curator.values import ValueCurator as ValueCurator
