"""Verbs for a store that is a folder of the machine; `root` is the folder."""

from __future__ import annotations

import os
from typing import Any, List, Optional

from gofer.objects.compare_and_swap import compare_and_swap
from gofer.objects.files import FileObjects
from gofer.remote.answer import Answer


def get(data: bytes, root: str, key: str, start: int = 0, length: int = -1) -> Answer:
    return Answer(None, FileObjects(root).get_range(key, start, length))


def put(data: bytes, root: str, key: str, new: bool = False) -> Answer:
    FileObjects(root).put(key, data, new=new)
    return Answer()


def swap(data: bytes, root: str, key: str, old_md5: Optional[str]) -> Answer:
    return Answer(compare_and_swap(root, key, old_md5, data))


def head(data: bytes, root: str, key: str) -> Answer:
    info = FileObjects(root).head(key)
    return Answer(None if info is None else [info.size, info.modified])


def list_page(data: bytes, root: str, prefix: str, after: str = "", most: int = 5000) -> Answer:
    """A page of the objects under `prefix` after the key `after`, in key order: [key, size, time] of each."""
    page: List[List[Any]] = []
    for info in FileObjects(root).list(prefix):
        if info.key > after:
            page.append([info.key, info.size, info.modified])
        if len(page) == most:
            break
    return Answer(page)


def folders(data: bytes, root: str, prefix: str) -> Answer:
    return Answer(sorted(FileObjects(root).list_folders(prefix)))


def delete(data: bytes, root: str, keys: List[str]) -> Answer:
    return Answer(FileObjects(root).delete(keys))


def copy(data: bytes, root: str, source: str, destination: str) -> Answer:
    FileObjects(root).copy(source, destination)
    return Answer()


def append(data: bytes, root: str, key: str) -> Answer:
    FileObjects(root).append(key, data)
    return Answer()


def stage(data: bytes, root: str, token: str) -> Answer:
    """Append to the bytes that `commit` will make an object."""
    FileObjects(root).stage(token, data)
    return Answer()


def commit(data: bytes, root: str, token: str, key: str) -> Answer:
    FileObjects(root).commit(token, key)
    return Answer()


def unstage(data: bytes, root: str, token: str) -> Answer:
    FileObjects(root).unstage(token)
    return Answer()


def find(data: bytes, root: str) -> Answer:
    """The full path of a store's folder; None when the folder does not exist."""
    whole = os.path.expanduser(root)
    return Answer(whole if os.path.isdir(whole) else None)


def make(data: bytes, root: str) -> Answer:
    """Make the folder of a store; return its full path."""
    whole = os.path.expanduser(root)
    os.makedirs(whole, exist_ok=True)
    return Answer(whole)


VERBS = {
    "objects.get": get,
    "objects.put": put,
    "objects.compare_and_swap": swap,
    "objects.head": head,
    "objects.list": list_page,
    "objects.folders": folders,
    "objects.delete": delete,
    "objects.copy": copy,
    "objects.append": append,
    "objects.stage": stage,
    "objects.commit": commit,
    "objects.unstage": unstage,
    "objects.find": find,
    "objects.make": make,
}
