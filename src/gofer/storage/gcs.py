"""`gs://bucket/prefix`: Google Cloud Storage, through obstore (`gofer[gcs]`), which supports all of Google's
logins.

Only obstore's blocking calls are used: in 0.7 to 0.12, its asynchronous calls can abort Python at exit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import GCSStore

from gofer.core.json_text import parse_json
from gofer.errors import ConfigError, CredentialError, GoferError, KeyExists, StoreError
from gofer.objects.names import key_of, s3_name
from gofer.storage.base import Bytes, ObjectInfo, check_key, check_prefix, no_such_key
from gofer.storage.credentials import OpenedStore, read_address

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_CLIENT: ClientConfig = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(seconds=300)}
_RETRY: RetryConfig = {
    "max_retries": 10,
    "retry_timeout": timedelta(seconds=180),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=20), "base": 2},
}
_PIECE = 1 << 20
_PAGE = 1000
_ADDRESS = re.compile(r"https?://\S+")


class GcsStore:
    """The objects of one bucket under a prefix. Opening it does no I/O. The repr shows the URL only."""

    def __init__(self, entry: OpenedStore) -> None:
        address = read_address(entry.url)
        self.url = entry.url
        self._entry = entry
        self._prefix = f"{s3_name(address.prefix)}/" if address.prefix else ""
        self._bucket = address.container
        self._store = _open(entry, address.container)

    def __repr__(self) -> str:
        return f"GcsStore({self.url!r})"

    def get(self, key: str) -> bytes:
        with self._explained("read", check_key(key)):
            return bytes(obstore.get(self._store, self._name(key)).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        if length < 0:
            raise StoreError(f"cannot read {length} bytes of {key!r} in {self.url}")
        info = self.head(key)
        if info is None:
            raise no_such_key(self.url, key)
        first = start if start >= 0 else max(info.size + start, 0)
        last = min(first + length, info.size)
        if last <= first:
            return b""
        with self._explained("read", key):
            return bytes(obstore.get_range(self._store, self._name(key), start=first, end=last))

    def get_stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        info = self.head(check_key(key))
        if info is None:
            raise no_such_key(self.url, key)
        end = info.size if length is None else min(start + length, info.size)
        if start >= end:
            return iter(())
        with self._explained("read", key):
            found = obstore.get(self._store, self._name(key), options={"range": (start, end)})
        return self._pieces(key, found)

    def _pieces(self, key: str, found: Any) -> Iterator[bytes]:
        with self._explained("read", key):
            for chunk in found.stream(min_chunk_size=_PIECE):
                whole = memoryview(chunk)
                yield from (bytes(whole[at : at + _PIECE]) for at in range(0, len(whole), _PIECE))

    def put(self, key: str, data: Bytes, *, new: bool = False) -> None:
        with self._explained("write", check_key(key)):
            mode: Literal["create", "overwrite"] = "create" if new else "overwrite"
            # A multipart upload has no condition, so `create` would not be atomic.
            obstore.put(self._store, self._name(key), bytes(data), mode=mode, use_multipart=False)

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: bytes | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """As the contract. The MD5 is compared here, before the object is finished."""
        import hashlib

        hashed, total = hashlib.md5(), 0

        def counted() -> Iterator[bytes]:
            nonlocal total
            for piece in pieces:
                hashed.update(piece)
                total += len(piece)
                yield piece
            if md5 not in (None, hashed.digest()):
                raise StoreError(f"cannot write {key!r} in {self.url}: the bytes do not have the given MD5")

        with self._explained("write", check_key(key)):
            obstore.put(self._store, self._name(key), counted(), attributes=dict(metadata or {}))
        return total

    def head(self, key: str) -> ObjectInfo | None:
        check_key(key)
        try:
            with self._explained("read", key):
                return self._info(obstore.head(self._store, self._name(key)))
        except GoferError as error:
            if type(error) is type(no_such_key(self.url, key)):
                return None
            raise

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        info = self.head(check_prefix(prefix)) if prefix else None
        if info:
            yield info
        start = self._name(f"{prefix}/") if prefix else self._prefix
        with self._explained("list", prefix):
            for page in obstore.list(self._store, start or None, chunk_size=_PAGE):
                yield from sorted(self._info(found) for found in page)

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        start = self._name(f"{check_prefix(prefix)}/") if prefix else self._prefix
        with self._explained("list", prefix):
            found = obstore.list_with_delimiter(self._store, start or None)["common_prefixes"]
        yield from sorted(key_of(name.rstrip("/").rpartition("/")[2]) for name in found)

    def delete(self, keys: Iterable[str]) -> int:
        return sum(self._delete(check_key(key)) for key in keys)

    def _delete(self, key: str) -> bool:
        if self.head(key) is None:
            return False
        with self._explained("delete", key):
            obstore.delete(self._store, self._name(key))
        return True

    def copy(self, source: str, destination: str) -> None:
        check_key(destination)
        with self._explained("read", check_key(source)):
            obstore.copy(self._store, self._name(source), self._name(destination))

    def sign(self, key: str, *, expires_s: float, method: Any = "GET") -> str:
        """As the contract. Needs a service account, because other logins have no key to sign with."""
        with self._explained("read", check_key(key)):
            return obstore.sign(self._store, method, self._name(key), timedelta(seconds=expires_s))

    def _name(self, key: str) -> str:
        return self._prefix + s3_name(key)

    def _info(self, found: Any) -> ObjectInfo:
        key = key_of(found["path"][len(self._prefix) :])
        return ObjectInfo(key, found["size"], found["last_modified"].timestamp(), None, found["e_tag"])

    @contextmanager
    def _explained(self, verb: str, key: str = "") -> Iterator[None]:
        what = f"cannot {verb} {f'{key!r} in ' if key else ''}the store {self._entry.label}"
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StoreError(f"{what}: there is no bucket `{self._bucket}`") from None
            raise no_such_key(self.url, key) from None
        except (AlreadyExistsError, PreconditionError):
            raise KeyExists(f"the store {self.url} already has an object {key!r}") from None
        except (PermissionDeniedError, UnauthenticatedError):
            raise CredentialError(f"{what}: the login has no right to {verb} there", hint=_HINT) from None
        except BaseError as error:
            raise StoreError(f"{what}: {_one_line(error)}") from None


_HINT = "`gcloud auth application-default login`, or give the store `key: ${file:service-account.json}`"


def _open(entry: OpenedStore, bucket: str) -> GCSStore:
    """The client, with the service account in `key`, or else the login of Google's tools on this machine."""
    config: dict[str, Any] = {"client_options": dict(_CLIENT), "retry_config": _RETRY}
    if entry.options.endpoint:
        config["base_url"] = entry.options.endpoint
        config["client_options"]["allow_http"] = entry.options.endpoint.startswith("http://")
    if entry.options.key:
        try:
            parse_json(entry.options.key)
        except ValueError:
            raise ConfigError(
                f"the `key` of the store {entry.label} is not the JSON of a service account",
                hint="write `key: ${file:service-account.json}`",
            ) from None
        config["service_account_key"] = entry.options.key
    try:
        return GCSStore(bucket, **config)
    except (BaseError, ValueError):
        # The message of obstore may quote the key.
        raise CredentialError(f"the store {entry.label} cannot be opened", hint=_HINT) from None


def _one_line(error: BaseError) -> str:
    """The first line of obstore's message, without addresses, which may contain signatures."""
    text = str(error).partition("\n\n\nDebug source:")[0].split("\n")[0]
    return _ADDRESS.sub("…", text)[:300]
