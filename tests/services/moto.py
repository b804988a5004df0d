"""moto's S3 server. It verifies no signature and no permission; what it does hold is the shape of the API."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import boto3  # type: ignore[import-untyped]

from services.process import serving


class Moto(NamedTuple):
    """A running server. The keys open nothing."""

    endpoint: str
    access_key: str = "dummy-access-key"
    secret_key: str = "dummy-secret-key"
    region: str = "us-east-1"

    def client(self) -> Any:
        """boto3's S3 client: a client that is not ours."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )

    def new_bucket(self, stem: str = "b") -> str:
        """An empty bucket with a name nobody else has."""
        name = f"{stem}-{uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def moto(folder: Path) -> Iterator[Moto]:
    """A server with nothing in it; its log goes to `folder`. AssertionError when it cannot start."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}"]
    with serving(argv, log=folder / "moto.log") as port:
        yield Moto(f"http://127.0.0.1:{port}")
