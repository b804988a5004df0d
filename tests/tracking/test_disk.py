"""The ledger's file on a disk that is full or cannot be written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from another_user import as_ordinary_user
from unit.tracking.build import group, run

from gofer.errors import LedgerCorrupt, LedgerError
from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Query

# Opens a ledger that cannot be opened, and prints what gofer says.
_OPEN = """
import sys
from pathlib import Path
from gofer.errors import LedgerError
from gofer.tracking.ledger import Ledger
try:
    Ledger.open(Path(sys.argv[1]))
except LedgerError as error:
    print(error.message)
    print(error.hint)
"""


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


def test_a_home_without_permission(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    home.mkdir(mode=0o500)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    argv = [*as_ordinary_user(), sys.executable, "-c", _OPEN, str(home / "gofer" / "ledger.db")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    message, hint = done.stdout.splitlines()
    assert "ermission" in message and str(home) in message
    assert "GOFER_HOME" in hint
    assert list(home.iterdir()) == []
