"""Shared access signatures, as the storage service checks them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import urlencode

from simulators.azure.clock import plain_stamp

_VERSION = "2020-12-06"


def account_sas(account: str, key: str, permissions: str, ends: float) -> str:
    """For everything in the account's blob service."""
    end = plain_stamp(ends)
    text = "\n".join([account, permissions, "b", "sco", "", end, "", "https,http", _VERSION, "", ""])
    fields = {"sv": _VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": end, "spr": "https,http"}
    return urlencode({**fields, "sig": _sign(key, text)})


def service_sas(account: str, key: str, permissions: str, ends: float, *place: str) -> str:
    """For a container, or for one blob when `place` has two parts."""
    kind = "b" if len(place) == 2 else "c"
    end = plain_stamp(ends)
    resource = f"/blob/{account}/{'/'.join(place)}"
    text = "\n".join([permissions, "", end, resource, "", "", "https,http", _VERSION, kind, *[""] * 7])
    fields = {"sv": _VERSION, "sr": kind, "sp": permissions, "se": end, "spr": "https,http"}
    return urlencode({**fields, "sig": _sign(key, text)})


def _sign(key: str, text: str) -> str:
    mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256)
    return base64.b64encode(mac.digest()).decode()
