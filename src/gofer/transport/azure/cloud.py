"""The addresses of an Azure cloud: three clouds are built in, others are read from ARM_CLOUD_METADATA_URL.

The cloud belongs to the login, as for `az`: AZURE_CLOUD_NAME, else the choice of `az cloud set` in the
profile, else the public cloud. A target that names its cloud sets this variable for its login.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gofer.core import files, private_folder
from gofer.core.json_text import parse_json
from gofer.core.retry import backoff, retry
from gofer.errors import Unreachable, UsageError
from gofer.objects.wire import Wire
from gofer.transport.azure.profile import CLOUD_VARIABLE, folder_of

METADATA_URL = "ARM_CLOUD_METADATA_URL"
_FRESH_S = 86400.0
_TIMEOUT_S = 20.0
_TRIES = 3


class Cloud(NamedTuple):
    """`arm` is the address of Azure Resource Manager, `authority` of the login service, `studio` of the web
    pages.

    `ml` is the audience of tokens for Azure ML itself.
    """

    name: str
    arm: str
    authority: str
    storage_suffix: str
    studio: str
    ml: str = "https://ml.azure.com"

    @property
    def scope(self) -> str:
        """The scope of tokens for Resource Manager."""
        return f"{self.arm}/.default"


_CLOUDS = {
    "azure": Cloud(
        "azure",
        "https://management.azure.com",
        "https://login.microsoftonline.com",
        "core.windows.net",
        "https://ml.azure.com",
    ),
    "usgov": Cloud(
        "usgov",
        "https://management.usgovcloudapi.net",
        "https://login.microsoftonline.us",
        "core.usgovcloudapi.net",
        "https://ml.azure.us",
        "https://ml.azure.us",
    ),
    "china": Cloud(
        "china",
        "https://management.chinacloudapi.cn",
        "https://login.chinacloudapi.cn",
        "core.chinacloudapi.cn",
        "https://studio.ml.azure.cn",
        "https://ml.azure.cn",
    ),
}
NAMES = tuple(_CLOUDS)
_IN_AZ = {"azure": "AzureCloud", "usgov": "AzureUSGovernment", "china": "AzureChinaCloud"}


def in_cloud(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """A copy of the environment in which gofer and `az` use the cloud of that name."""
    return {**environ, CLOUD_VARIABLE: _IN_AZ.get(name, name)}


def cloud_name(environ: Mapping[str, str]) -> str | None:
    """The environment's cloud: one of NAMES, or the name of a cloud that the user added to `az`.

    None for a cloud that ARM_CLOUD_METADATA_URL describes.
    """
    if environ.get(METADATA_URL):
        return None
    chosen = environ.get(CLOUD_VARIABLE) or _chosen_in_az(environ) or "azure"
    # People write gofer's names as well as those of `az`, in any case.
    known = {word.lower(): name for name, in_az in _IN_AZ.items() for word in (name, in_az)}
    return known.get(chosen.lower(), chosen)


def find_cloud(environ: Mapping[str, str], folder: str) -> Cloud:
    """The addresses of the environment's cloud. Blocking.

    A cloud's description is fetched at most once a day and kept in `folder`; while its address does not
    answer, an older one is used. Raises Unreachable when there is none at all, UsageError for an unknown
    name.
    """
    name = cloud_name(environ)
    if name is None:
        return _described(environ[METADATA_URL], environ, folder)
    if name not in _CLOUDS:
        raise UsageError(
            f"gofer does not know an Azure cloud `{name}`",
            hint=f"choose one of {', '.join(NAMES)}; `{METADATA_URL}` describes any other",
        )
    authority = environ.get("AZURE_AUTHORITY_HOST")
    return _CLOUDS[name]._replace(authority=_with_scheme(authority)) if authority else _CLOUDS[name]


def _chosen_in_az(environ: Mapping[str, str]) -> str | None:
    try:
        with open(os.path.join(folder_of(environ), "config"), encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    # configparser is slow to load, and most profiles have no such section.
    if "cloud" not in text:
        return None
    import configparser

    # Without interpolation, because values of `az` may contain a percent sign.
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return parser.get("cloud", "name", fallback=None)


def read_metadata(text: str | bytes, url: str) -> Cloud:
    """The first cloud in the document behind ARM_CLOUD_METADATA_URL; Unreachable for another document."""
    try:
        document: Any = parse_json(text)
        entry = document[0] if isinstance(document, list) else document
        return Cloud(
            str(entry["name"]),
            _with_scheme(entry["resourceManager"]),
            _with_scheme(entry["authentication"]["loginEndpoint"]),
            str(entry["suffixes"]["storage"]),
            _with_scheme(entry.get("mlStudio") or _CLOUDS["azure"].studio),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise Unreachable(
            f"`{url}` does not describe a cloud", hint=f"the address comes from `{METADATA_URL}`"
        ) from None


def _described(url: str, environ: Mapping[str, str], folder: str) -> Cloud:
    path = os.path.join(folder, "cloud.json")
    kept = _kept(path, url)
    # A time in the future, after a change of the clock, does not count as fresh.
    if kept and 0 <= time.time() - float(kept["at"]) < _FRESH_S:
        return _chosen(kept["text"], url, environ)
    try:
        text, etag = _fetch(url, str(kept["etag"]) if kept else "")
    except Unreachable:
        if kept is None:
            raise
        text, etag = str(kept["text"]), str(kept["etag"])
    if not text and kept:  # the server says that the description has not changed
        text = str(kept["text"])
    cloud = _chosen(text, url, environ)
    _keep(path, {"url": url, "at": time.time(), "etag": etag, "text": text})
    return cloud


def _chosen(text: str, url: str, environ: Mapping[str, str]) -> Cloud:
    cloud = read_metadata(text, url)
    authority = environ.get("AZURE_AUTHORITY_HOST")
    return cloud._replace(authority=_with_scheme(authority)) if authority else cloud


def _kept(path: str, url: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            found = parse_json(file.read())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and {"url", "at", "etag", "text"} <= found.keys()
    return found if whole and found["url"] == url else None


def _keep(path: str, what: Mapping[str, Any]) -> None:
    try:
        private_folder.make_missing(os.path.dirname(path))
        files.write_whole(path, json.dumps(what).encode(), mode=0o600)
    except OSError:
        pass  # without a kept copy, the next command fetches the description again


def _fetch(url: str, etag: str) -> tuple[str, str]:
    """The text and its ETag; the text is empty when the one with `etag` is still valid. Tries three times."""
    return retry(lambda: _fetch_once(url, etag), errors=Unreachable, pause_s=backoff(0.3, tries=_TRIES))


def _fetch_once(url: str, etag: str) -> tuple[str, str]:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": "application/json", **({"If-None-Match": etag} if etag else {})}
    try:
        wire = Wire(url, silence_timeout_s=_TIMEOUT_S)
        answer = wire.send("GET", target, headers)
        body = answer.read()
        wire.close()
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"the description of the cloud at `{url}` cannot be read: {error}",
            hint=f"the address comes from `{METADATA_URL}`",
        ) from None
    if answer.status == 304:
        return "", etag
    if answer.status != 200:
        raise Unreachable(
            f"the description of the cloud at `{url}` cannot be read: the server answered {answer.status}",
            hint=f"the address comes from `{METADATA_URL}`",
        )
    return body.decode("utf-8", "replace"), answer.headers.get("etag", "")


def _with_scheme(url: object) -> str:
    text = str(url).rstrip("/")
    return text if "://" in text else f"https://{text}"
