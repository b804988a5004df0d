"""Fixtures for tests of snapshots: a project, a store, a cache, and a git that knows nobody's settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshot.project import SnapshotProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnapshotProject:
    """A project folder with a store and a cache beside it, in a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Nobody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "nobody@example.org")
    return SnapshotProject(tmp_path)
