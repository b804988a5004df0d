"""`torchx_k8s.py`: one command to Kubernetes through torchx, which makes a Job of Volcano."""

from __future__ import annotations

from torchx import specs  # type: ignore[import-not-found, unused-ignore]
from torchx.runner import get_runner  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    role = specs.Role(name="bench", image="localhost/python:3", entrypoint="true", args=[])
    app = specs.AppDef(name="bench", roles=[role])
    with get_runner() as runner:
        dry = runner.dryrun(app, "kubernetes", {"queue": "default", "namespace": "default"})
        print(runner.schedule(dry))


if __name__ == "__main__":
    main()
