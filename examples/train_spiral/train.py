"""Train a small network to tell two spirals apart; needs nothing beyond Python.

One hidden layer of tanh units, forward and backward written by hand, Adam for the steps. Under gofer every
process trains on points drawn with a seed of its own (`--seed` plus RANK), so a run of four processes is
four independent trials. The model and its metrics go to $GOFER_OUTPUT_DIR, or to the folder `output`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import time
from pathlib import Path

Point = tuple[float, float, int]
TURNS = 1.75
POINTS = 300
BATCH = 20


def spiral_points(count: int, rng: random.Random, noise: float = 0.02) -> list[Point]:
    """`count` points, half on each arm; the label says which arm."""
    points = []
    for index in range(count):
        label = index % 2
        radius = 0.15 + 0.85 * rng.random()
        angle = radius * TURNS * 2 * math.pi + label * math.pi
        x = radius * math.cos(angle) + rng.gauss(0, noise)
        y = radius * math.sin(angle) + rng.gauss(0, noise)
        points.append((x, y, label))
    return points


class Network:
    """x, y -> `hidden` tanh units -> the probability of arm 1. Parameters lie in one flat list, for Adam."""

    def __init__(self, hidden: int, rng: random.Random) -> None:
        self.hidden = hidden
        self.weights = [rng.gauss(0, 2.5) for _ in range(3 * hidden)]
        self.weights += [rng.gauss(0, 1 / math.sqrt(hidden)) for _ in range(hidden)] + [0.0]

    def activations(self, x: float, y: float) -> list[float]:
        w, tanh = self.weights, math.tanh
        return [tanh(w[k] * x + w[k + 1] * y + w[k + 2]) for k in range(0, 3 * self.hidden, 3)]

    def probability(self, units: list[float]) -> float:
        out = self.weights[3 * self.hidden : -1]
        total = self.weights[-1] + sum(map(float.__mul__, units, out))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def gradient(self, batch: list[Point]) -> tuple[float, list[float]]:
        """The mean cross-entropy of the batch and its derivative by every parameter."""
        hidden, out = self.hidden, self.weights[3 * self.hidden : -1]
        slopes = [0.0] * len(self.weights)
        loss = 0.0
        for x, y, label in batch:
            units = self.activations(x, y)
            guess = self.probability(units)
            loss -= math.log(max(guess if label else 1 - guess, 1e-12))
            error = (guess - label) / len(batch)
            slopes[-1] += error
            for unit in range(hidden):
                value = units[unit]
                slopes[3 * hidden + unit] += error * value
                back = error * out[unit] * (1 - value * value)
                slopes[3 * unit] += back * x
                slopes[3 * unit + 1] += back * y
                slopes[3 * unit + 2] += back
        return loss / len(batch), slopes

    def accuracy(self, points: list[Point]) -> float:
        right = sum((self.probability(self.activations(x, y)) > 0.5) == bool(label) for x, y, label in points)
        return right / len(points)


class Adam:
    """Steps of a size of their own for every parameter."""

    def __init__(self, size: int, lr: float) -> None:
        self.lr = lr
        self.step_count = 0
        self.mean = [0.0] * size
        self.square = [0.0] * size

    def step(self, weights: list[float], slopes: list[float]) -> None:
        self.step_count += 1
        mean_scale = 1 / (1 - 0.9**self.step_count)
        square_scale = 1 / (1 - 0.999**self.step_count)
        for i, slope in enumerate(slopes):
            self.mean[i] += 0.1 * (slope - self.mean[i])
            self.square[i] += 0.001 * (slope * slope - self.square[i])
            spread = math.sqrt(self.square[i] * square_scale) + 1e-8
            weights[i] -= self.lr * self.mean[i] * mean_scale / spread


def train(options: argparse.Namespace, rank: int) -> tuple[Network, list[dict[str, float]]]:
    """The trained network, and one row of metrics every tenth of the way."""
    rng = random.Random(options.seed * 1000 + rank)
    training, held_out = spiral_points(POINTS, rng), spiral_points(400, rng)
    network = Network(options.hidden, rng)
    adam = Adam(len(network.weights), options.lr)
    rows: list[dict[str, float]] = []
    for epoch in range(1, options.epochs + 1):
        rng.shuffle(training)
        losses = []
        for start in range(0, POINTS, BATCH):
            loss, slopes = network.gradient(training[start : start + BATCH])
            adam.step(network.weights, slopes)
            losses.append(loss)
        if epoch % max(options.epochs // 10, 1) == 0 or epoch == options.epochs:
            row = {"epoch": epoch, "loss": sum(losses) / len(losses), "accuracy": network.accuracy(held_out)}
            rows.append(row)
            line = "epoch {epoch:4.0f}  loss {loss:.4f}  held-out accuracy {accuracy:.3f}"
            print(line.format(**row), flush=True)
    return network, rows


def write_results(folder: Path, rank: int, network: Network, rows: list[dict[str, float]]) -> None:
    """model.json and metrics.csv; processes other than the first add their rank to the names."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"-rank-{rank}" if rank else ""
    model = {"hidden": network.hidden, "weights": network.weights, "accuracy": rows[-1]["accuracy"]}
    (folder / f"model{mark}.json").write_text(json.dumps(model) + "\n")
    with open(folder / f"metrics{mark}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["epoch", "loss", "accuracy"])
        writer.writeheader()
        writer.writerows(rows)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small network to tell two spirals apart.")
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.epochs < 1 or options.hidden < 1:
        parser.error("--epochs and --hidden must be at least 1")
    return options


def main() -> None:
    options = parse_options()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    print(f"process {rank} of {world_size}: {options.hidden} units, lr {options.lr}, seed {options.seed}")
    began = time.monotonic()
    network, rows = train(options, rank)
    folder = Path(os.environ.get("GOFER_OUTPUT_DIR", "output"))
    write_results(folder, rank, network, rows)
    took = time.monotonic() - began
    accuracy = rows[-1]["accuracy"]
    print(f"accuracy {accuracy:.3f} after {options.epochs} epochs in {took:.1f}s; model in {folder}")


if __name__ == "__main__":
    main()
