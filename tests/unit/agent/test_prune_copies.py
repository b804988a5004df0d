"""Working copies that hold more than may be kept go after two weeks, or at a shorter age."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gofer.core import prune


def test_a_working_copy_goes_by_its_age(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    copy = kept / "r260101-000000-abcdef.1.0"
    (copy / "closed").mkdir(parents=True)
    (copy / "closed" / "big").write_bytes(b"x" * 100)
    (copy / "closed").chmod(0o500)
    now = time.time()
    os.utime(copy, (now - 1000, now - 1000))
    (found,) = prune.working_copies(str(kept))
    assert now - 1001 < found.at < now - 999
    assert not prune.is_old_copy(found.at, now - 2000) and prune.is_old_copy(found.at, now - 500)
    assert prune.is_old_copy(now - 15 * 86400, now - 30 * 86400)
    assert (found.kind, found.name, found.about) == ("working copy", copy.name, "r260101-000000-abcdef")
    assert found.size == 100
    assert prune.remove_working_copy(str(tmp_path), str(kept), found.name)
    assert list(kept.iterdir()) == list((tmp_path / "gone").iterdir()) == []
    assert prune.remove_working_copy(str(tmp_path), str(kept), found.name)
