"""A program: one run whose store is opened by an identity. What is trusted is read once in each process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from azureml.node.service import Service
from services.azurite import Account


def main(folder: str, endpoint: str, name: str, key: str, msi: str) -> None:
    service = Service(Path(folder), Account(name, key, endpoint))
    spec = {word: value for word, value in service.spec.items() if word != "sas"}
    job = service.job(
        ["sh", "-c", "echo by identity"], spec={**spec, "identity": {"client_id": "dummy-client"}}
    )
    job.environ |= {"MSI_ENDPOINT": msi, "MSI_SECRET": "dummy-msi-secret"}
    job.environ |= {"IDENTITY_ENDPOINT": "", "IDENTITY_HEADER": ""}
    (done,) = job.run()
    print(json.dumps({**done._asdict(), "log": job.log(), "state": job.end()["state"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
