"""`s3://bucket/prefix`: Amazon S3, or a service with the same interface at an `endpoint`."""

from __future__ import annotations

import os

from gofer.core.store_spec import IdentitySpec, StoreSpec
from gofer.errors import CredentialError
from gofer.objects import open_s3, s3_url
from gofer.objects.s3_auth import SigV4
from gofer.storage.base import Store, no_such_key
from gofer.storage.cloud import CloudStore
from gofer.storage.credentials import OpenedStore, read_address, read_endpoint, s3_keys
from gofer.storage.explain import Circumstances

# The longest time for which S3 accepts a signed URL.
_LONGEST_S = 7 * 86400


class S3Store(CloudStore):
    """The objects of one bucket under a prefix. Opening it does no I/O."""

    def __init__(self, entry: OpenedStore) -> None:
        address = read_address(entry.url)
        access_key, secret_key, token = s3_keys(entry, os.environ)
        self._spec: StoreSpec = {
            "kind": "s3",
            "endpoint": read_endpoint(entry) or _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            "bucket": address.container,
            "prefix": address.prefix,
            "region": entry.options.region or _variable("AWS_REGION", "AWS_DEFAULT_REGION"),
            "access_key": access_key,
            "secret_key": secret_key,
            "session_token": token,
        }
        self._bucket = open_s3(self._spec)
        super().__init__(entry.url, self._bucket, lambda: self._facts(entry))

    def sign(self, key: str, *, expires_s: float, method: str = "GET") -> str:
        """As the contract; CredentialError for more than a week."""
        if not 1 <= expires_s <= _LONGEST_S:
            raise CredentialError(f"S3 signs URLs for at most a week, not for {expires_s:.0f} s")
        signer = self._bucket.client.signer
        assert isinstance(signer, SigV4)
        base = s3_url(self._spec)
        path = self._bucket.path(key)
        root = base[: len(base) - len(self._bucket.root)] if self._bucket.root else base
        return root + signer.presign(method, path, int(expires_s))

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """Copy from a bucket of the same service that the same keys open. False for other stores."""
        if not isinstance(source, S3Store) or source._access() != self._access():
            return False
        with source._explained("read", source_key):
            info = source.head(source_key)
        if info is None:
            raise no_such_key(source.url, source_key)
        with self._explained("write", key):
            self._bucket.copy_from_source(source._bucket.source(source_key), info, key)
        return True

    def node_spec(
        self, prefix: str = "", *, expires_s: float, write: bool, identity: IdentitySpec | None = None
    ) -> StoreSpec:
        """A spec with the store's own keys: S3 has no narrower credential without another service."""
        whole = "/".join(part for part in (self._spec["prefix"], prefix) if part)
        return {**self._spec, "prefix": whole}

    def _access(self) -> tuple[str | None, ...]:
        spec = self._spec
        return spec["endpoint"], spec["region"], spec["access_key"], spec["secret_key"]

    def _facts(self, entry: OpenedStore) -> Circumstances:
        return Circumstances(entry, str(self._spec["bucket"]), "", "s3", None, self.clock_ahead_s)


def _variable(*names: str) -> str | None:
    """The first of the variables that is set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
