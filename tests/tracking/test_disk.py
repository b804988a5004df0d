"""The ledger's file on a disk that is full or cannot be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.tracking.build import group, run

from gofer.errors import LedgerCorrupt, LedgerError
from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Query


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.root
@pytest.mark.parametrize("there", [True, False])
def test_a_read_only_home(disk: Path, there: bool) -> None:
    if there:
        with Ledger.open(disk / "gofer" / "ledger.db") as ledger:
            ledger.insert([run()])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(LedgerError) as caught, Ledger.open(disk / "gofer" / "ledger.db") as ledger:
        ledger.insert([run("r261116-091233-cccccc")])
    assert "GOFER_HOME" in (caught.value.hint or "")
    assert str(disk) in caught.value.message


@pytest.mark.root
def test_a_full_disk_loses_the_new_and_keeps_the_old(disk: Path) -> None:
    with Ledger.open(disk / "ledger.db") as ledger:
        ledger.insert([run()])
        with pytest.raises(LedgerError, match="full") as caught:
            ledger.insert(group("r261116-091233-gggggg", 10_000))
        assert not isinstance(caught.value, LedgerCorrupt)
        assert [row.id for row in ledger.select(Query())] == [run().id]
        ledger.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_without_permission(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    with pytest.raises(LedgerError, match="ermission") as caught:
        Ledger.open(home / "gofer" / "ledger.db")
    assert "GOFER_HOME" in (caught.value.hint or "")
