"""`kubeflow_train.py`: one command to Kubernetes through Kubeflow's SDK, which makes a TrainJob."""

from __future__ import annotations

from kubeflow.trainer import (  # type: ignore[import-not-found, unused-ignore]
    CustomTrainer,
    TrainerClient,
)


def train() -> None:
    """What is trained."""
    print("trained")


if __name__ == "__main__":
    print(TrainerClient().train(trainer=CustomTrainer(func=train, num_nodes=1)))
