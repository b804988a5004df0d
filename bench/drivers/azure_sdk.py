"""`azure_sdk.py up|down|list FOLDER CONTAINER PREFIX`: the azure-storage-blob SDK at its best.

In the peer's interpreter; the account's URL and key come in AZURE_URL and AZURE_KEY. Small files go up by its
asyncio client and come down by threads, which is the faster way each time; one large file is the SDK's own
business, eight blocks of 8 MiB at a time. It compares nothing with what is there: the SDK has no such verb.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from azure.storage.blob import BlobServiceClient, ContainerClient

_AT_ONCE = 16
_SIZES: dict[str, Any] = {
    "max_block_size": 8 << 20,
    "max_single_put_size": 8 << 20,
    "max_single_get_size": 8 << 20,
    "max_chunk_get_size": 8 << 20,
}
_LARGE = 8 << 20


def main(arguments: Sequence[str]) -> int:
    verb, folder, container, prefix = arguments
    client = BlobServiceClient(os.environ["AZURE_URL"], credential=os.environ["AZURE_KEY"], **_SIZES)
    held = client.get_container_client(container)
    if verb == "list":
        print(sum(1 for _ in held.list_blobs()))
    elif verb == "up":
        upload(Path(folder), held, container, prefix)
    else:
        download(Path(folder), held, prefix)
    return 0


def upload(folder: Path, client: ContainerClient, container: str, prefix: str) -> None:
    paths = {f"{prefix}/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}
    large = {name for name, path in paths.items() if path.stat().st_size >= _LARGE}
    for name in large:
        with paths[name].open("rb") as file:
            client.upload_blob(name, file, overwrite=True, max_concurrency=8)
    small = [(name, path) for name, path in paths.items() if name not in large]
    if small:
        asyncio.run(upload_small(container, small))


async def upload_small(container: str, files: list[tuple[str, Path]]) -> None:
    from azure.storage.blob.aio import BlobServiceClient as AsyncService

    waiting = iter(files)
    url, key = os.environ["AZURE_URL"], os.environ["AZURE_KEY"]
    async with AsyncService(url, credential=key, **_SIZES) as service:
        client = service.get_container_client(container)

        async def send() -> None:
            for name, path in waiting:
                await client.upload_blob(name, path.read_bytes(), overwrite=True)

        await asyncio.gather(*(send() for _ in range(_AT_ONCE)))


def download(folder: Path, client: ContainerClient, prefix: str) -> None:
    found = [(blob.name, blob.size) for blob in client.list_blobs(name_starts_with=f"{prefix}/")]

    def fetch(item: tuple[str, int]) -> None:
        name, size = item
        path = folder / name[len(prefix) + 1 :]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            client.download_blob(name, max_concurrency=8 if size >= _LARGE else 1).readinto(file)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fetch, found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
