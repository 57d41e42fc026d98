"""A fictional hospital: a table to try Weft on. No patient, stay or price in it was ever real.

The columns hang together as they would in a real register: diagnoses follow age and sex, wards follow diagnoses,
stays lengthen with severity, costs grow with ward and length, the gravely ill and the old come back more often.
"""

from weft.demo.facts import DIAGNOSES, hospital_schema
from weft.demo.stays import ROWS, SEED, hospital

__all__ = ["DIAGNOSES", "ROWS", "SEED", "hospital", "hospital_schema"]
