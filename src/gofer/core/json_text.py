"""Read JSON that anybody may have written."""

from __future__ import annotations

import json
from typing import Any, Union


def parse_json(text: Union[str, bytes, bytearray]) -> Any:
    """The value; ValueError for everything that is not JSON, and for JSON that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
