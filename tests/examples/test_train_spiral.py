"""The example really learns, alone and as one process of several."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "train_spiral" / "train.py"


def train(output: Path, *options: str, **env: str) -> str:
    """Run the script as a user would; its standard output."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        env={**os.environ, "GOFER_OUTPUT_DIR": str(output), **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


def read_metrics(path: Path) -> list[dict[str, float]]:
    with open(path, newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_held_out_accuracy_rises_far_above_chance(tmp_path: Path) -> None:
    log = train(tmp_path, "--epochs", "160")
    rows = read_metrics(tmp_path / "metrics.csv")
    assert rows[-1]["epoch"] == 160
    assert rows[-1]["accuracy"] > 0.9
    assert rows[-1]["loss"] < rows[0]["loss"] / 2
    model = json.loads((tmp_path / "model.json").read_text())
    assert model["accuracy"] == rows[-1]["accuracy"]
    assert len(model["weights"]) == 4 * model["hidden"] + 1
    assert f"accuracy {rows[-1]['accuracy']:.3f} after 160 epochs" in log


def test_an_untrained_network_is_near_chance(tmp_path: Path) -> None:
    """Guards the test above: the problem is not so easy that a high score says nothing."""
    train(tmp_path, "--epochs", "1", "--lr", "0")
    assert read_metrics(tmp_path / "metrics.csv")[0]["accuracy"] < 0.7


def test_each_rank_has_its_own_points_and_files(tmp_path: Path) -> None:
    train(tmp_path, "--epochs", "2", RANK="0", WORLD_SIZE="2")
    log = train(tmp_path, "--epochs", "2", RANK="1", WORLD_SIZE="2")
    assert "process 1 of 2" in log
    first = json.loads((tmp_path / "model.json").read_text())
    second = json.loads((tmp_path / "model-rank-1.json").read_text())
    assert first["weights"] != second["weights"]


def test_the_same_seed_gives_the_same_model(tmp_path: Path) -> None:
    train(tmp_path / "a", "--epochs", "2", "--seed", "7")
    train(tmp_path / "b", "--epochs", "2", "--seed", "7")
    assert (tmp_path / "a" / "model.json").read_bytes() == (tmp_path / "b" / "model.json").read_bytes()


def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        train(tmp_path, "--epochs", "0")
    assert caught.value.returncode == 2
    assert not (tmp_path / "model.json").exists()
