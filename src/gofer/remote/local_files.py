"""A store that is a folder of this machine."""

from __future__ import annotations

import os
from itertools import islice
from typing import List, Optional

from gofer.core import prune
from gofer.objects import compare_and_swap
from gofer.objects.files import FileObjects
from gofer.remote.api import StoredFile

_PAGE = 5000


class LocalFiles:
    """Implements FilesApi. `root` is the folder of the store; `~` is expanded."""

    def __init__(self, root: str) -> None:
        self._root = os.path.expanduser(root)
        self._objects = FileObjects(self._root)

    def find(self) -> Optional[str]:
        return self._root if os.path.isdir(self._root) else None

    def make(self) -> str:
        os.makedirs(self._root, exist_ok=True)
        return self._root

    def get(self, key: str, start: int, length: int) -> bytes:
        return self._objects.get_range(key, start, length)

    def put(self, key: str, data: bytes, new: bool) -> None:
        self._objects.put(key, data, new=new)

    def compare_and_swap(self, key: str, old_md5: Optional[str], data: bytes) -> bool:
        return compare_and_swap.compare_and_swap(self._root, key, old_md5, data)

    def head(self, key: str) -> Optional[StoredFile]:
        found = self._objects.head(key)
        return None if found is None else StoredFile(*found[:3])

    def list_page(self, prefix: str, after: str) -> List[StoredFile]:
        entries = (StoredFile(*found[:3]) for found in self._objects.list(prefix) if found.key > after)
        return list(islice(entries, _PAGE))

    def list_folders(self, prefix: str) -> List[str]:
        return sorted(self._objects.list_folders(prefix))

    def delete(self, keys: List[str]) -> int:
        return self._objects.delete(keys)

    def copy(self, source: str, destination: str) -> None:
        self._objects.copy(source, destination)

    def append(self, key: str, data: bytes) -> None:
        self._objects.append(key, data)

    def stage(self, token: str, data: bytes) -> None:
        self._objects.stage(token, data)

    def commit(self, token: str, key: str) -> None:
        self._objects.commit(token, key)

    def unstage(self, token: str) -> None:
        self._objects.unstage(token)

    def remove_empty_folders(self, prefix: str) -> None:
        prune.tidy(os.path.join(self._root, prefix))
