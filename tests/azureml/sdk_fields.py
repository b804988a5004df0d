"""Which fields of a request or an answer the official SDK's own generated models do not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from azure.ai.ml._restclient.arm_ml_service._utils.model_base import Model
from azure.ai.ml._restclient.runhistory._utils.model_base import Model as RunModel

# The SDK itself sends and reads it, beside its own model.
KNOWN = {"properties.resources.locations"}


def unknown(value: Any, path: str = "") -> Iterator[str]:
    """Fields of a parsed model, and of all within it, that no attribute stands for."""
    if isinstance(value, Model | RunModel):
        attributes = {field._rest_name: name for name, field in value._attr_to_rest_field.items()}
        for name in value:
            where = f"{path}.{name}".lstrip(".")
            if name not in attributes:
                yield where
            else:
                yield from unknown(getattr(value, attributes[name]), where)
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from unknown(one, f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from unknown(one, f"{path}[]")
