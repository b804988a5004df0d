"""A folder opened as a node opens it is the folder that the laptop's file store sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.objects import open_objects
from gofer.objects.facts import Exists, ObjectNotFound, ObjectsError
from gofer.objects.files import FileObjects
from gofer.storage.file import FileStore


@pytest.fixture
def both(tmp_path: Path) -> tuple[FileObjects, FileStore]:
    store = FileStore(tmp_path / "a store", create=True)
    objects = open_objects({"kind": "file", "root": str(store.root)})
    assert isinstance(objects, FileObjects)
    return objects, store


def test_what_one_writes_the_other_reads(both: tuple[FileObjects, FileStore]) -> None:
    objects, store = both
    objects.put("a/näme", b"0123456789", metadata={"mtime": "1"})
    assert store.get("a/näme") == b"0123456789"
    store.put("b", b"x", new=True)
    assert objects.get("b") == b"x"
    assert [info.key for info in objects.list()] == [info.key for info in store.list()] == ["a/näme", "b"]
    assert [info.key for info in objects.list("a")] == ["a/näme"]
    assert objects.get_range("a/näme", 2, 3) == b"234"
    assert objects.get_range("a/näme", -3, 100) == b"789"
    assert objects.head("a") is None
    with pytest.raises(Exists):
        objects.put("b", b"y", new=True)
    assert objects.delete(["b", "absent"]) == 1
    assert store.head("b") is None


def test_what_is_not_there_or_cannot_be(both: tuple[FileObjects, FileStore]) -> None:
    objects, _ = both
    for key in ("absent", "a/b"):
        with pytest.raises(ObjectNotFound):
            objects.get(key)
        assert objects.head(key) is None
    for key in ("../x", "", "/etc/passwd", "a//b", "a\0b"):
        with pytest.raises(ObjectsError, match="not a key"):
            objects.put(key, b"")
    with pytest.raises(ValueError, match="no such kind"):
        open_objects({"kind": "ftp"})
