"""Train a classifier of images on as many workers as there are, with a checkpoint after each epoch.

The folder of images has a folder for each class. Images are PPM files, or of any format when Pillow is
installed. Each worker takes its share of them; the workers average their gradients by PyTorch, which a single
worker does not need. A worker that starts again continues from the newest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from pathlib import Path

SIDE = 8
Image = list[float]


def main() -> None:
    """Rank 0 prints the loss of each epoch and writes the checkpoints."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--input_path", type=Path, required=True, help="a folder with a folder for each class"
    )
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--lr", type=float, default=0.5)
    options.add_argument("--pause", type=float, default=0.0, help="seconds to wait after each epoch")
    given = options.parse_args()

    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    average = averaging(world_size)
    classes, images = read_images(given.input_path)
    mine = images[rank::world_size]
    first, weights = restore(len(classes))
    if rank == 0:
        print(f"{len(images)} images of {len(classes)} classes, {world_size} workers", flush=True)
    for epoch in range(first, given.epochs):
        loss, gradient = step(weights, mine)
        gradient = average(gradient)
        weights = [weight - given.lr * slope for weight, slope in zip(weights, gradient, strict=True)]
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.4f}", flush=True)
            save(epoch, weights)
        time.sleep(given.pause)


def averaging(world_size: int):
    """A function that returns the mean of a list of numbers over all workers."""
    if world_size == 1:
        return lambda numbers: numbers
    import torch
    import torch.distributed

    torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"

    def average(numbers: list[float]) -> list[float]:
        whole = torch.tensor(numbers, device=device)
        torch.distributed.all_reduce(whole)
        return (whole / world_size).tolist()

    return average


def read_images(folder: Path) -> tuple[list[str], list[tuple[Image, int]]]:
    """The classes, and all images with the number of the class of each, in the same order everywhere."""
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    found = [
        (shrink(path), number)
        for number, name in enumerate(classes)
        for path in sorted((folder / name).iterdir())
        if path.is_file()
    ]
    random.Random(0).shuffle(found)
    return classes, found


def shrink(path: Path) -> Image:
    """The image as SIDE x SIDE x 3 numbers between 0 and 1, and a 1 for the bias."""
    width, height, pixels = read_ppm(path) if path.suffix == ".ppm" else read_with_pillow(path)
    numbers = []
    for row in range(SIDE):
        for column in range(SIDE):
            at = 3 * (row * height // SIDE * width + column * width // SIDE)
            numbers += [value / 255 for value in pixels[at : at + 3]]
    return [*numbers, 1.0]


def read_ppm(path: Path) -> tuple[int, int, bytes]:
    """Width, height and pixels of a binary PPM file without comments."""
    kind, width, height, _, pixels = path.read_bytes().split(maxsplit=4)
    if kind != b"P6":
        raise SystemExit(f"{path} is not a binary PPM file")
    return int(width), int(height), pixels


def read_with_pillow(path: Path) -> tuple[int, int, bytes]:
    from PIL import Image as Pillow

    with Pillow.open(path) as image:
        return image.width, image.height, image.convert("RGB").tobytes()


def step(weights: list[float], images: list[tuple[Image, int]]) -> tuple[float, list[float]]:
    """The loss over the images, and its gradient: softmax regression."""
    size = 3 * SIDE * SIDE + 1
    count = len(weights) // size
    gradient = [0.0] * len(weights)
    loss = 0.0
    for image, wanted in images:
        scores = [sum(weights[k * size + i] * value for i, value in enumerate(image)) for k in range(count)]
        top = max(scores)
        shares = [math.exp(score - top) for score in scores]
        total = sum(shares)
        loss -= math.log(max(shares[wanted] / total, 1e-12))
        for k in range(count):
            slope = (shares[k] / total - (k == wanted)) / len(images)
            for i, value in enumerate(image):
                gradient[k * size + i] += slope * value
    return loss / max(len(images), 1), gradient


def folder() -> Path:
    return Path(os.environ.get("GOFER_OUTPUT_DIR", "output"))


def restore(classes: int) -> tuple[int, list[float]]:
    """The epoch to begin with, and the weights of the newest checkpoint; zeros without one."""
    found = sorted(folder().glob("checkpoint-*.json"))
    if not found:
        return 0, [0.0] * (classes * (3 * SIDE * SIDE + 1))
    newest = json.loads(found[-1].read_text())
    print(f"continues after epoch {newest['epoch']}", flush=True)
    return newest["epoch"] + 1, newest["weights"]


def save(epoch: int, weights: list[float]) -> None:
    """Write a checkpoint in one step: a reader never sees half of one."""
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / f"checkpoint-{epoch:04}.json"
    path.with_suffix(".part").write_text(json.dumps({"epoch": epoch, "weights": weights}))
    path.with_suffix(".part").rename(path)


if __name__ == "__main__":
    main()
