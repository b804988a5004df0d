"""Names under `.localhost` are this machine (RFC 6761), also where the C library asks a name server."""

from __future__ import annotations

import socket
from typing import Any

_ask = socket.getaddrinfo


def _resolve(host: Any, *rest: Any, **more: Any) -> Any:
    local = isinstance(host, str) and host.endswith(".localhost")
    return _ask("127.0.0.1" if local else host, *rest, **more)


socket.getaddrinfo = _resolve
