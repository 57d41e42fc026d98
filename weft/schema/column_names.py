"""Recognise ids, person ids and codes by column name. Names are public; no row is read."""

import re
from collections import Counter
from collections.abc import Sequence

from weft.errors import SchemaError

_WHO = r"patient|person|subject|member|client|customer|user|pupil|student|employee|household"
_PERSON = re.compile(rf"{_WHO}|(?:^|[\W_])(?:mrn|ssn|nhs)(?:$|[\W_])", re.IGNORECASE)
_ID = re.compile(rf"(?:^|[\W_]|{_WHO})(?:id|nr|nbr|num|no|number|key|mrn|ssn)$|(?-i:[a-z]I[dD]$)", re.IGNORECASE)
_CODE = re.compile(r"code|post|zip|plz|icd", re.IGNORECASE)


def names_id(name: str) -> bool:
    """Return whether a column name contains a word for an id.

    >>> [names_id(name) for name in ("visit_id", "patientId", "MRN", "paid")]
    [True, True, True, False]
    """
    return _ID.search(name) is not None


def names_person(name: str) -> bool:
    """Return whether a column name refers to a person.

    >>> [names_person(name) for name in ("patient_nbr", "member", "ward")]
    [True, True, False]
    """
    return _PERSON.search(name) is not None


def names_code(name: str) -> bool:
    """Return whether a column name refers to a code, whose values carry meaning however many there are.

    >>> [names_code(name) for name in ("postcode", "ICD10", "patient_code")]
    [True, True, False]
    """
    return _CODE.search(name) is not None and _PERSON.search(name) is None


def likely_units(names: Sequence[str]) -> list[str]:
    """Return the names that refer to a person, or all names by default.

    >>> likely_units(["visit_id", "mrn"]), likely_units(["order", "basket"])
    (['mrn'], ['order', 'basket'])
    """
    return [name for name in names if _PERSON.search(name)] or list(names)


def require_distinct(names: Sequence[str]) -> None:
    """Validate that named columns have different names; columns without a name are ignored."""
    for name, times in Counter(names).items():
        if name and times > 1:
            raise SchemaError(f'column "{name}": the table has several columns of this name; rename them')
