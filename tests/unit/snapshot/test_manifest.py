"""Names in JSON, ids, and what differs between two snapshots."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot.project import SnapshotProject

from gofer.core.code.manifest import differences, list_files
from gofer.core.code.packs import parse_index
from gofer.core.code.snapshot_names import ManifestError, compute_id, decode_name, encode_name
from gofer.snapshot.contents import load

NAMES = st.one_of(
    st.binary(min_size=1), st.text(min_size=1).map(lambda text: text.encode("utf-8", "replace"))
).filter(lambda name: b"\0" not in name)


@given(NAMES)
def test_any_name_survives_json(name: bytes) -> None:
    assert decode_name(json.loads(json.dumps(encode_name(name)))) == name


@given(NAMES, NAMES)
def test_two_names_are_never_written_alike(one: bytes, two: bytes) -> None:
    assert (encode_name(one) == encode_name(two)) == (one == two)


@pytest.mark.parametrize("text", ["", "\0", "\0AA==", "a\0", "\ud800", "\0\u00e9", None, 3, ["a"]])
def test_what_is_no_name_is_refused(text: object) -> None:
    with pytest.raises(ManifestError):
        decode_name(text)


def test_the_id_tells_paths_and_listings_apart() -> None:
    """No two different trees give the hash the same bytes."""
    one, two = b"1" * 32, b"2" * 32
    ids = {
        compute_id(pairs)
        for pairs in ([], [(b"", one)], [(b"", two)], [(b"", one), (b"a", two)], [(b"", one), (b"b", two)])
    }
    assert len(ids) == 5


def test_what_was_added_removed_and_changed(project: SnapshotProject) -> None:
    project.write({"same": "1", "edited": "1", "gone": "1", "sub/gone": "1", "mode": "1"})
    os.symlink("same", project.folder / "link")
    old = load(project.store, project.take().id)
    project.write({"edited": "2", "sub/new é": "1"})
    for name in ("gone", "sub/gone", "link"):
        (project.folder / name).unlink()
    os.symlink("edited", project.folder / "link")
    (project.folder / "mode").chmod(0o755)
    new = load(project.store, project.take().id)
    assert differences(old, new) == (("sub/new é",), ("gone", "sub/gone"), ("edited", "link", "mode"))
    assert differences(new, new) == ((), (), ())
    assert [(entry.path, entry.kind, entry.size) for entry in list_files(new)] == [
        (b"edited", "f", 1),
        (b"link", "l", 0),
        (b"mode", "x", 1),
        (b"same", "f", 1),
        ("sub/new é".encode(), "f", 1),
    ]


def test_an_index_that_leads_beyond_every_file_is_malformed() -> None:
    data = json.dumps([["0" * 64, 1 << 64, 1]]).encode()
    with pytest.raises(ManifestError, match="too far"):
        parse_index(data, hashlib.sha256(data).hexdigest())
