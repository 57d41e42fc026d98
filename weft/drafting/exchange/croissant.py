"""Croissant: metadata of machine-learning data sets, in JSON-LD based on schema.org."""

from typing import Any

from weft.drafting.exchange.column_metadata import describe_columns
from weft.io.formats import all_formats
from weft.schema.schema import Schema

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "sc": "https://schema.org/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "recordSet": "cr:recordSet",
    "field": "cr:field",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "source": "cr:source",
    "fileObject": "cr:fileObject",
    "extract": "cr:extract",
    "column": "cr:column",
}
_TYPES = {
    "integer": "Integer",
    "real": "Float",
    "boolean": "Boolean",
    "date": "Date",
    "datetime": "DateTime",
    "time": "Time",
}


def write(schema: Schema, table: str) -> dict[str, Any]:
    """Return the metadata of one table."""
    stem, _, ending = table.partition(".")
    fields = []
    for each in describe_columns(schema):
        sort = _TYPES.get(each.sort, "Text")
        if each.values is not None and all(type(value) is int for value in each.values):
            sort = "Integer"
        source = {"fileObject": {"@id": table}, "extract": {"column": each.name}}
        field = {"@type": "cr:Field", "@id": f"{stem}/{each.name}", "name": each.name, "dataType": f"sc:{sort}"}
        fields.append(field | {"source": source})
    file = {"@type": "cr:FileObject", "@id": table, "name": table, "contentUrl": table}
    known: dict[str, str] = dict(pair for form in all_formats() for pair in form.media_types)
    file["encodingFormat"] = known.get(f".{ending}", "application/octet-stream")
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": stem,
        "description": "A synthetic table generated with differential privacy; its card states the guarantee.",
        "distribution": [file],
        "recordSet": [{"@type": "cr:RecordSet", "@id": stem, "name": stem, "field": fields}],
    }
