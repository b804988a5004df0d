"""The JSON Schema of `gofer.yaml` and of a job file, so that editors complete and check them.

Made from the same types the decoder reads. `python -m gofer.config.schema` prints that of `gofer.yaml`, with
`--job` that of a job file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec
from msgspec import inspect

from gofer.config.sections import (
    DEFAULT_GPUS,
    ENTRIES,
    FOLDERS,
    IGNORE,
    FileSection,
    JobFileSection,
    JobSection,
)
from gofer.config.yaml.decode import allowed_words, struct_type, without_metadata

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Unquoted `no`, `8` and `0.10` are taken as the text they are wherever text is wanted.
_TEXT_TYPES = ["string", "number", "boolean"]
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{(env|file|secret):[^}]+\}"}
_NULL: Schema = {"type": "null"}
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_LENGTHS = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}


def project_schema(kinds: Mapping[str, type[msgspec.Struct]]) -> Schema:
    """The schema of `gofer.yaml` and of the user's file, with the targets of those kinds."""
    root = _of_struct(struct_type(FileSection))
    targets = [_of_target(kind, struct_type(options)) for kind, options in sorted(kinds.items())]
    root["properties"]["targets"] = {
        "description": "Where to run, by name",
        "type": "object",
        "propertyNames": _of_name(ENTRIES),
        "additionalProperties": {"anyOf": targets} if targets else {"type": "object"},
    }
    root["properties"]["job"] = {"$ref": "#/$defs/job"}
    # A heading with nothing under it says nothing.
    root["properties"] = {name: _or_null(value) for name, value in root["properties"].items()}
    folders = {"description": "Folders of this target alone, by name"} | schema_of(FOLDERS)
    ignore = {
        "description": "Patterns of files that stay out of snapshots for this target alone"
    } | schema_of(IGNORE)
    defs = {"job": _of_struct(struct_type(JobSection)), "folders": folders, "ignore": ignore}
    return {"$schema": _DIALECT, "title": "gofer.yaml", **root, "$defs": defs}


def job_schema() -> Schema:
    """The schema of a file for `gofer submit --job`."""
    return {"$schema": _DIALECT, "title": "a job of gofer", **_of_struct(struct_type(JobFileSection))}


def _of_target(kind: str, options: inspect.StructType) -> Schema:
    own = _of_struct(options)
    own["properties"] = {
        "kind": {
            "const": kind,
            "description": "The kind of target; may be left out where another file says it",
        },
        "store": _or_null({"type": "string", "description": "The name of the store for its runs"}),
        "job": _or_null({"$ref": "#/$defs/job"}),
        "folders": _or_null({"$ref": "#/$defs/folders"}),
        "ignore": _or_null({"$ref": "#/$defs/ignore"}),
        "default_gpus": _or_null(
            {"description": "GPUs of a run that does not say how many"} | schema_of(DEFAULT_GPUS)
        ),
        **own["properties"],
    }
    return own


def _of_struct(kind: inspect.StructType) -> Schema:
    return {
        "description": " ".join((kind.cls.__doc__ or "").split("\n\n")[0].split()),
        "type": "object",
        "additionalProperties": False,
        "properties": {field.encode_name: schema_of(field.type) for field in kind.fields},
    }


def schema_of(annotated: inspect.Type) -> Schema:
    """The schema of one type, as the decoder accepts it."""
    kind, extra = without_metadata(annotated)
    notes = dict(getattr(annotated, "extra_json_schema", None) or {})
    if isinstance(kind, inspect.UnionType):
        return _of_union(kind) | notes
    if isinstance(kind, inspect.StructType):
        return _of_struct(kind) | notes
    if isinstance(kind, inspect.DictType):
        names = _of_name(kind)
        entries = {"type": "object", "additionalProperties": schema_of(kind.value_type)}
        return entries | ({"propertyNames": names} if names else {}) | notes
    if isinstance(kind, (inspect.VarTupleType, inspect.ListType)):
        return {"type": "array", "items": schema_of(kind.item_type)} | notes
    return _of_scalar(kind, extra) | notes


def _of_union(kind: inspect.UnionType) -> Schema:
    parts = [schema_of(one) for one in kind.types if not isinstance(one, inspect.NoneType)]
    joined = parts[0] if len(parts) == 1 else {"anyOf": parts}
    return _or_null(joined) if kind.includes_none else joined


def _of_scalar(kind: inspect.Type, extra: Mapping[str, Any]) -> Schema:
    if "duration" in extra:
        return {"type": ["string", "number"]}
    if "reference" in extra:
        return _REFERENCE
    if isinstance(kind, inspect.StrType):
        limits = {
            word: getattr(kind, name) for name, word in _LENGTHS.items() if getattr(kind, name) is not None
        }
        text: Schema = {"type": "string" if kind.pattern else _TEXT_TYPES, **limits}
        return _or_reference(text) if limits and "verbatim" not in extra else text
    if isinstance(kind, inspect.BoolType):
        return _or_reference({"type": "boolean"})
    if isinstance(kind, (inspect.IntType, inspect.FloatType)):
        limits = {
            word: getattr(kind, name) for name, word in _LIMITS.items() if getattr(kind, name) is not None
        }
        return _or_reference({"type": "integer" if isinstance(kind, inspect.IntType) else "number", **limits})
    words = allowed_words(kind)
    return _or_reference({"enum": sorted(words)}) if words else {}


def _of_name(kind: inspect.DictType) -> Schema:
    rule, _ = without_metadata(kind.key_type)
    return {
        word: getattr(rule, name) for name, word in _LENGTHS.items() if getattr(rule, name, None) is not None
    }


def _or_reference(schema: Schema) -> Schema:
    return {"anyOf": [schema, _REFERENCE]}


def _or_null(schema: Schema) -> Schema:
    """Nothing written is allowed too."""
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": types if "null" in types else [*types, "null"]}
    notes = {name: value for name, value in schema.items() if name == "description"}
    choices = schema.get("anyOf", [{name: value for name, value in schema.items() if name not in notes}])
    return {**notes, "anyOf": choices if _NULL in choices else [*choices, _NULL]}


def render(schema: Schema) -> str:
    """The schema as the text of a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Print the schema of `gofer.yaml`, or with `--job` that of a job file."""
    if list(arguments) == ["--job"]:
        sys.stdout.write(render(job_schema()))
        return
    # As a program this file stands above the layers; as a module it knows no backend.
    registry = import_module("gofer.backends.registry")
    sys.stdout.write(render(project_schema(registry.Kinds())))


if __name__ == "__main__":
    main(sys.argv[1:])
