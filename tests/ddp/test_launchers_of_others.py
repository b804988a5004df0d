"""The real accelerate and Lightning, plain and through gofer, on one node and on two.

`make test-torch` installs them and runs these.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from home import Home

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ACCELERATE = """
import torch
from accelerate import Accelerator

joined = Accelerator(cpu=True)
torch.manual_seed(0)
model = joined.prepare(torch.nn.Linear(4, 1))
loss = model(torch.full((2, 4), float(joined.process_index))).sum()
joined.backward(loss)
total = joined.reduce(torch.ones(1), "sum").item()
print(f"rank {joined.process_index} of {joined.num_processes} sum {total:g}", flush=True)
joined.end_training()
"""
LIGHTNING = """
import sys
import lightning
import torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def on_train_end(self):
        total = self.trainer.strategy.reduce(torch.ones(1), reduce_op="sum").item()
        print(f"rank {self.global_rank} of {self.trainer.world_size} sum {total:g}", flush=True)


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(16, 4)), batch_size=2)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", devices=2, num_nodes=int(sys.argv[1]), strategy="ddp", **quiet
)
trainer.fit(Model(), data)
"""


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has torch, accelerate and Lightning."""
    found = os.environ.get("GOFER_TEST_TORCH")
    assert found, "GOFER_TEST_TORCH names no Python with torch; `make test-torch` sets it"
    return found


@pytest.fixture
def home(home: Home) -> Home:
    (home.folder / "with_accelerate.py").write_text(ACCELERATE)
    (home.folder / "with_lightning.py").write_text(LIGHTNING)
    home.configure("targets: {big: {kind: local, gpus: 4, gpus_per_node: 2}}\n")
    home.environ["OMP_NUM_THREADS"] = "1"
    return home


def ranks(log: str) -> list[str]:
    return sorted(re.findall(r"rank \d+ of \d+ sum \d+", log))


def expected(count: int) -> list[str]:
    return [f"rank {rank} of {count} sum {count}" for rank in range(count)]


def plain(home: Home, *words: str) -> list[str]:
    done = subprocess.run(
        words, cwd=home.folder, env=home.environ, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return ranks(done.stdout)


def through_gofer(home: Home, nodes: int, *words: str) -> list[str]:
    """With a time limit: processes that wait for others which nobody starts would wait for ever."""
    done = home.gofer("submit", "-Q", "--wait", "--time-limit", "250s", *words, status=None)
    log = "".join(home.log(done.out.strip(), "--node", str(node)) for node in range(nodes))
    assert done.status == 0, log
    return ranks(log)


def test_accelerate_launch(home: Home, python: str) -> None:
    command = (python, "-m", "accelerate.commands.launch", "with_accelerate.py")
    assert plain(home, *command) == through_gofer(home, 1, *command) == expected(1)
    assert through_gofer(home, 2, "-N", "2", *command) == expected(2)
    assert through_gofer(home, 2, "-t", "big", "-n", "4", *command) == expected(4)


def test_lightning_that_starts_its_processes_itself(home: Home, python: str) -> None:
    alone = (python, "with_lightning.py", "1")
    assert plain(home, *alone) == through_gofer(home, 1, *alone) == expected(2)
    assert through_gofer(home, 1, "-t", "big", "-n", "2", "--single", *alone) == expected(2)
    both = (python, "with_lightning.py", "2")
    assert through_gofer(home, 2, "-N", "2", "--single", *both) == expected(4)
