"""`azureml_sdk.py submit FOLDER | show NAME FOLDER | tail NAME FOLDER | list COUNT`: the SDK azure-ai-ml.

Runs in the peer's interpreter and uses the SDK as a script would. The variables WORKSPACE_* name the
workspace and AZURE_* the login. It signs in at each start, as the SDK does by default; with
WORKSPACE_KEEPS_LOGIN it keeps its tokens in a file under HOME for the next process. It prints
what `gofer` prints for the same: an id, a state with the log's last 100 lines, those lines alone, or a
table of jobs.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# It describes the public clouds itself, and would fetch the description of another hundreds of times, some
# of them while it is loaded: here it does so once.
_description = os.environ.pop("ARM_CLOUD_METADATA_URL")
from azure.ai.ml import MLClient, _azure_environments, command  # noqa: E402
from azure.identity import ClientSecretCredential, TokenCachePersistenceOptions  # noqa: E402

os.environ["ARM_CLOUD_METADATA_URL"] = _description
_azure_environments._get_clouds_by_metadata_url = functools.cache(
    _azure_environments._get_clouds_by_metadata_url
)
_LINES = 100
_ask = socket.getaddrinfo


def _resolve(host: Any, *rest: Any, **more: Any) -> Any:
    """The account's blobs are at a name under `.localhost`, which not every C library knows to be here."""
    local = isinstance(host, str) and host.endswith(".localhost")
    return _ask("127.0.0.1" if local else host, *rest, **more)


def client() -> MLClient:
    kept = TokenCachePersistenceOptions(allow_unencrypted_storage=True)
    credential = ClientSecretCredential(
        os.environ["AZURE_TENANT_ID"],
        os.environ["AZURE_CLIENT_ID"],
        os.environ["AZURE_CLIENT_SECRET"],
        authority=os.environ["AZURE_AUTHORITY_HOST"],
        disable_instance_discovery=True,
        cache_persistence_options=kept if "WORKSPACE_KEEPS_LOGIN" in os.environ else None,
    )
    place = (os.environ[f"WORKSPACE_{name}"] for name in ("SUBSCRIPTION", "GROUP", "NAME"))
    return MLClient(credential, *place, enable_telemetry=False)


def submit(folder: str) -> None:
    job = command(
        code=folder,
        command="python train.py --data voc20",
        environment="sklearn-1.5:1",
        compute="cpu-cluster",
        experiment_name="bench",
        display_name="train",
    )
    print(client().jobs.create_or_update(job).name)


def show(name: str, folder: str) -> None:
    jobs = client().jobs
    print(jobs.get(name).status)
    _tail(jobs, name, folder)


def tail(name: str, folder: str) -> None:
    _tail(client().jobs, name, folder)


def _tail(jobs: Any, name: str, folder: str) -> None:
    """By `download`, of all that the job left: logs are not to be had alone, and `stream` shows nothing of
    those of a job that has ended.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        jobs.download(name, download_path=folder)
    (found,) = Path(folder).rglob("std_log.txt")
    print("\n".join(found.read_text(encoding="utf-8").splitlines()[-_LINES:]))


def show_all(count: str) -> None:
    wanted = int(count)
    for job in itertools.islice(client().jobs.list(max_results=wanted), wanted):
        made = job.creation_context.created_at if job.creation_context else ""
        print(job.name, job.status, job.display_name, job.experiment_name, made)


VERBS: dict[str, Callable[..., None]] = {
    "submit": submit,
    "show": show,
    "tail": tail,
    "list": show_all,
}

if __name__ == "__main__":
    # It warns of every class that is in preview, in a terminal full of words nobody asked for.
    logging.disable(logging.WARNING)
    socket.getaddrinfo = _resolve
    VERBS[sys.argv[1]](*sys.argv[2:])
