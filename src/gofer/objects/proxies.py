"""The proxy that the environment names for a host: `https_proxy`, `http_proxy`, `no_proxy`."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional
from urllib.parse import unquote, urlsplit


class WebProxy(NamedTuple):
    """The address of the proxy, and the value for Proxy-Authorization if it needs one."""

    host: str
    port: int
    authorization: Optional[str]


def proxy_for(scheme: str, host: str, environ: Mapping[str, str]) -> Optional[WebProxy]:
    """The proxy; None for this machine, for hosts in `no_proxy`, and when none is set for the scheme."""
    # HTTP_PROXY is not read: in a CGI program that variable holds the client's `Proxy` header.
    url = environ.get(f"{scheme}_proxy") or (environ.get("HTTPS_PROXY") if scheme == "https" else None)
    if not url or _is_near(host) or _is_excluded(host, environ):
        return None
    return parse_proxy(url)


def parse_proxy(url: str) -> Optional[WebProxy]:
    """The proxy at this address; None for an address without a host. ValueError for an impossible port."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not parts.hostname:
        return None
    # 3128 is the usual port of proxies.
    return WebProxy(parts.hostname, parts.port or 3128, _authorization(parts.username, parts.password))


def _is_near(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _is_excluded(host: str, environ: Mapping[str, str]) -> bool:
    names = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").replace(",", " ").split()
    return any(name == "*" or f".{host}".endswith(f".{name.lstrip('.')}") for name in names)


def _authorization(user: Optional[str], password: Optional[str]) -> Optional[str]:
    if user is None:
        return None
    from base64 import b64encode

    pair = f"{unquote(user)}:{unquote(password or '')}"
    return "Basic " + b64encode(pair.encode()).decode()
