"""Private values beside the queue: readable by their owner alone, gone when nobody needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gofer.core.secrets import run_secrets

VALUES = run_secrets.RunSecrets(
    {"TOKEN": "not-a-real-token", "ODD": "a\udcff\n'\""}, {"kind": "file", "root": "/nowhere"}, {}, ["TOKEN"]
)


def test_values_are_there_until_the_run_has_ended(tmp_path: Path) -> None:
    queue_home = str(tmp_path / "engine")
    assert run_secrets.read(queue_home, "r1") == run_secrets.NOTHING
    run_secrets.write(queue_home, "r1", VALUES)
    run_secrets.write(queue_home, "r10", VALUES._replace(store=None))
    run_secrets.confirm(queue_home, "r1")
    run_secrets.confirm(queue_home, "r1")
    assert run_secrets.read(queue_home, "r1") == VALUES
    for run in ("r1", "r1", "r10"):
        run_secrets.remove(queue_home, run)
    assert run_secrets.read(queue_home, "r1") == run_secrets.NOTHING
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        run_secrets.write(str(tmp_path), "r1", VALUES)
        modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
        run_secrets.confirm(str(tmp_path), "r1")
    finally:
        os.umask(old)
    assert modes == {0o600}
    assert (tmp_path / "sealed").stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in (tmp_path / "sealed").iterdir()] == [0o600]


def test_what_a_dead_process_sealed_and_did_not_confirm_is_found(tmp_path: Path) -> None:
    words = (
        "import sys; from gofer.core.secrets import run_secrets as s; s.write(sys.argv[1], 'r1', s.NOTHING)"
    )
    subprocess.run([sys.executable, "-c", words, str(tmp_path)], check=True, timeout=60)
    run_secrets.write(str(tmp_path), "r2", VALUES)
    found = run_secrets.abandoned(str(tmp_path))
    assert list(found.values()) == ["r1"]
    assert all(Path(path).is_file() for path in found)
