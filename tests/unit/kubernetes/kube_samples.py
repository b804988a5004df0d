"""What a real cluster said of Jobs in trouble; `python -m k8s.record_samples` records it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from gofer.backends.kubernetes.state.job_facts import JobFacts, read_job

SAMPLES = Path(__file__).parent / "samples"
VERSIONS = sorted(path.name for path in SAMPLES.iterdir())


class Sample(NamedTuple):
    """`read_at` is when the cluster was asked."""

    job: dict[str, Any]
    pods: list[dict[str, Any]]
    events: list[dict[str, Any]]
    read_at: float

    @property
    def facts(self) -> JobFacts:
        return read_job(self.job, self.pods)


def sample(version: str, name: str) -> Sample:
    """One sample of a version of Kubernetes."""
    return Sample(**json.loads((SAMPLES / version / f"{name}.json").read_text()))
