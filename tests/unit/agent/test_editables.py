"""Editable installs of a project, found for each process of a run at little cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gofer.core.code import editable
from gofer.core.code.editable import Editables, find_editables


class Listings:
    """Counts the folders that this process lists while `is_on`. An audit hook cannot be removed."""

    def __init__(self) -> None:
        self.is_on = False
        self.folders: list[str] = []
        sys.addaudithook(self._record)

    def _record(self, event: str, args: tuple[object, ...]) -> None:
        if self.is_on and event in ("os.listdir", "os.scandir"):
            self.folders.append(str(args[0]))


def install(prefix: Path, version: str, project: Path, inside: str, packages: str = "site-packages") -> None:
    site = prefix / "lib" / version / packages
    site.mkdir(parents=True, exist_ok=True)
    (site / f"__editable__.{inside}.pth").write_text(f"{project}/{inside}\n")


def test_the_second_answer_lists_no_folder_and_is_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the environments are looked at: an answer is used again for a moment."""
    monkeypatch.setattr(editable, "_LOOK_AGAIN_S", 1e-9)
    prefix, project = tmp_path / "env", tmp_path / "project"
    install(prefix, "python3.11", project, "src")
    (prefix / "lib" / "python3.9").mkdir()  # without packages
    (tmp_path / "same").symlink_to("env")
    environment = {"PATH": "", "VIRTUAL_ENV": str(prefix), "CONDA_PREFIX": str(tmp_path / "same")}

    def find() -> Editables:
        return find_editables(["true"], environment, str(project))

    assert find() == (("src",), ())
    listings = Listings()
    listings.is_on = True
    assert find() == (("src",), ())
    listings.is_on = False
    assert listings.folders == []
    for version, inside, packages in (
        ("python3.11", "more", "site-packages"),
        ("python3.9", "old", "dist-packages"),
        ("python3.13", "new", "site-packages"),
    ):
        install(prefix, version, project, inside, packages)
        for folder in (prefix / "lib" / version / packages, prefix / "lib"):
            os.utime(folder, ns=(0, folder.stat().st_mtime_ns + 1))  # a clock may be too coarse to tell
        assert inside in find().folders
