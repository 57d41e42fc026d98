"""What a table means: columns and their public facts, and the codec between values and codes."""

from weft.schema.codec import Codec as Codec
from weft.schema.columns import Boolean as Boolean
from weft.schema.columns import Category as Category
from weft.schema.columns import Column as Column
from weft.schema.columns import Datetime as Datetime
from weft.schema.columns import Id as Id
from weft.schema.columns import Integer as Integer
from weft.schema.columns import Real as Real
from weft.schema.schema import Schema as Schema
