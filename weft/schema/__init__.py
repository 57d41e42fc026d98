"""What a table means: its columns, and what is publicly known of each."""

from weft.schema.columns import Boolean as Boolean
from weft.schema.columns import Category as Category
from weft.schema.columns import Column as Column
from weft.schema.columns import Datetime as Datetime
from weft.schema.columns import Id as Id
from weft.schema.columns import Integer as Integer
from weft.schema.columns import Real as Real
from weft.schema.schema import Schema as Schema
