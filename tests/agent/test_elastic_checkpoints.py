"""When a checkpoint of an elastic run counts as complete."""

from __future__ import annotations

import os
import time
from pathlib import Path

from home import until

from gofer.node.elastic.checkpoints import USUAL, CheckpointWatch


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_old_checkpoint_and_other_files_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "model.pt", "old")
    watch = CheckpointWatch(str(tmp_path), list(USUAL))
    write(tmp_path / "log.txt", "new")
    assert not seen_within(watch, 3.0)


def test_a_renamed_file_counts_at_once(tmp_path: Path) -> None:
    write(tmp_path / "deep er/model.pt", "old")
    watch = CheckpointWatch(str(tmp_path), list(USUAL))
    write(tmp_path / "deep er/model.tmp", "new")
    os.replace(tmp_path / "deep er/model.tmp", tmp_path / "deep er/model.pt")
    until(watch.look, "the checkpoint to be seen")


def test_a_file_that_grows_counts_when_it_rests(tmp_path: Path) -> None:
    watch = CheckpointWatch(str(tmp_path), ["step-*/"])
    path = tmp_path / "step-7/weights"
    for size in range(1, 6):
        write(path, "x" * size)
        assert not seen_within(watch, 0.5)
    until(watch.look, "the checkpoint to be seen")


def test_a_missing_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert not CheckpointWatch(str(tmp_path / "none"), list(USUAL)).look()


def seen_within(watch: CheckpointWatch, seconds: float) -> bool:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at:
        if watch.look():
            return True
        time.sleep(0.05)
    return False
