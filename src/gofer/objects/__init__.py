"""A small client for object stores that uses only the standard library, for nodes and for the laptop.

The HTTP code is gofer's own because nodes have only Python: no package can be installed there before a run.
`open_objects` takes plain data, which can be sent to a node: see gofer.core.store_spec.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Optional, Union

from gofer.core.store_spec import StoreSpec

if TYPE_CHECKING:
    from gofer.objects.azure import AzureObjects
    from gofer.objects.base import ObjectService
    from gofer.objects.client import Client, Signer
    from gofer.objects.files import FileObjects
    from gofer.objects.retry_policy import Policy
    from gofer.objects.s3 import S3Objects


def open_objects(spec: StoreSpec, *, policy: Optional[Policy] = None) -> Union[ObjectService, FileObjects]:
    """A client for the objects that `spec` describes. Does no I/O; ValueError for a spec that is not valid.

    Failed connections are retried for as long as the policy allows: gofer has written to the store when it
    made the spec, so the address is known to be right.
    """
    from gofer.objects.retry_policy import Policy

    policy = (policy or Policy())._replace(is_sure=True)
    kind = spec.get("kind")
    if kind == "file":
        from gofer.objects.files import FileObjects

        return FileObjects(spec["root"])
    if kind == "azure":
        return open_azure(spec, _azure_signer(spec), policy=policy)
    if kind == "s3":
        return open_s3(spec, policy=policy)
    raise ValueError(f"no such kind of objects: {kind!r}")


def open_azure(spec: StoreSpec, signer: Signer, *, policy: Optional[Policy] = None) -> AzureObjects:
    """The client of a container, with any signer."""
    from gofer.objects.azure import AzureObjects

    endpoint = spec["endpoint"] or ""
    return AzureObjects(
        _client(endpoint, signer, policy, spec), endpoint, spec["container"], spec.get("prefix", "")
    )


def open_s3(spec: StoreSpec, *, policy: Optional[Policy] = None) -> S3Objects:
    """The client of a bucket."""
    from gofer.objects.s3 import S3Objects
    from gofer.objects.s3_auth import AccessKey, SigV4
    from gofer.objects.wire import ServerAddress

    url = s3_url(spec)
    server = ServerAddress.of(url)
    keys = AccessKey(spec["access_key"], spec["secret_key"], spec.get("session_token"))
    region = spec.get("region") or "us-east-1"
    signer = SigV4(keys, region, server.host_header, is_secure=server.scheme == "https")
    return S3Objects(_client(url, signer, policy, spec), url, spec["bucket"], spec.get("prefix", ""))


def s3_url(spec: StoreSpec) -> str:
    """The address of the bucket. The bucket's name is part of the host, unless a dot in it breaks TLS."""
    endpoint, bucket = spec.get("endpoint"), spec["bucket"]
    if endpoint:
        return f"{endpoint.rstrip('/')}/{bucket}"
    host = f"s3.{spec.get('region') or 'us-east-1'}.amazonaws.com"
    return f"https://{host}/{bucket}" if "." in bucket else f"https://{bucket}.{host}"


def _azure_signer(spec: StoreSpec) -> Signer:
    from gofer.objects.azure_auth import Bearer, Sas, SharedKey, bare_token

    if spec.get("key"):
        return SharedKey(spec["account"], spec["key"])
    if spec.get("sas"):
        return Sas(bare_token(spec["sas"]))
    identity = spec.get("identity")
    if identity is not None:
        from gofer.objects.identity import token_source

        return Bearer(token_source(identity))
    token = spec["token"]
    # A node cannot get another token. The end is set far ahead; the service refuses the token when it
    # expires.
    return Bearer(lambda: (token, time.time() + 86400))


def _client(url: str, signer: Signer, policy: Optional[Policy], spec: StoreSpec) -> Client:
    from gofer.objects.client import Client
    from gofer.objects.wire import SILENCE_TIMEOUT_S

    return Client(url, signer, policy=policy, silence_timeout_s=spec.get("timeout_s", SILENCE_TIMEOUT_S))
