"""Train a small network with PyTorch's DistributedDataParallel, on as many processes as there are.

The same script runs alone, under gofer, mpirun or torchrun, on GPUs with nccl or on CPUs with gloo: what
differs is in `gofer.torch.init_process_group`. The data are made up: points of a plane, and whether they lie
inside a ring.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

import gofer.torch


def main() -> None:
    """Rank 0 prints the loss and keeps the model; every rank prints what it ended with."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--batch", type=int, default=64, help="points of each process in each step")
    options.add_argument("--lr", type=float, default=0.02)
    given = options.parse_args()

    rank, world_size, _, device = gofer.torch.init_process_group()
    torch.manual_seed(0)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=given.lr)
    torch.manual_seed(1 + rank)  # each rank draws points of its own
    for step in range(given.steps):
        loss = train_step(model, optimizer, given.batch, device)
        if rank == 0 and (step % 50 == 0 or step == given.steps - 1):
            print(f"step {step} loss {loss:.4f}", flush=True)
    print(f"rank {rank} of {world_size} on {device}: weights {fingerprint(model)}", flush=True)
    if rank == 0:
        save(model)
    torch.distributed.destroy_process_group()


def network() -> torch.nn.Module:
    """Two hidden layers are plenty for a ring."""
    return torch.nn.Sequential(
        torch.nn.Linear(2, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 1),
    )


def train_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: int, device: torch.device
) -> float:
    """One step on fresh points; the loss of this rank's."""
    points = torch.rand(batch, 2, device=device) * 2 - 1
    radius = points.norm(dim=1, keepdim=True)
    labels = ((radius > 0.4) & (radius < 0.8)).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(points), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def fingerprint(model: torch.nn.Module) -> str:
    """The same on every rank, since the gradients are averaged over all of them."""
    whole = torch.cat([one.detach().flatten().cpu() for one in model.parameters()])
    return hashlib.sha256(whole.numpy().tobytes()).hexdigest()[:12]


def save(model: DistributedDataParallel) -> None:
    folder = Path(os.environ.get("GOFER_OUTPUT_DIR", "output"))
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.module.state_dict(), folder / "model.pt")


if __name__ == "__main__":
    main()
