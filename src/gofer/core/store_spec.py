"""The settings with which a node opens a store: plain data, as gofer.objects.open_objects takes them."""

from __future__ import annotations

from typing import Optional, TypedDict


class IdentitySpec(TypedDict, total=False):
    """An identity that the machine has at Azure. Neither field: the machine's only identity."""

    client_id: Optional[str]
    resource_id: Optional[str]


class StoreSpec(TypedDict, total=False):
    """A place in a store, and the credentials for it. Secret, except for a `file`.

    `kind` says which fields there are: `azure` (with one of `key`, `sas`, `token`, `identity`), `s3` or
    `file`. `timeout_s` is for tests: how long the service may be silent.
    """

    kind: str
    prefix: str
    timeout_s: float
    # azure; an endpoint of s3 is None for Amazon's own
    endpoint: Optional[str]
    container: str
    account: str
    key: str
    sas: str
    token: str
    identity: Optional[IdentitySpec]
    # s3
    bucket: str
    region: Optional[str]
    access_key: str
    secret_key: str
    session_token: Optional[str]
    # file
    root: str
