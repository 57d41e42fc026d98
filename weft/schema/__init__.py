"""Schema of a table: its columns and the public facts about each of them."""

from weft.schema.kinds import KINDS as KINDS
from weft.schema.kinds import Boolean as Boolean
from weft.schema.kinds import Category as Category
from weft.schema.kinds import Column as Column
from weft.schema.kinds import ColumnError as ColumnError
from weft.schema.kinds import Datetime as Datetime
from weft.schema.kinds import Derived as Derived
from weft.schema.kinds import Duration as Duration
from weft.schema.kinds import Id as Id
from weft.schema.kinds import Integer as Integer
from weft.schema.kinds import Real as Real
from weft.schema.kinds import Time as Time
from weft.schema.schema import Schema as Schema
