"""What clients asked of the API server: each request is one line of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

_PARTS = ("system:apiserver", "system:kube-controller-manager", "system:kube-proxy", "system:kube-scheduler")


class Request(NamedTuple):
    """A request that was answered. `verb` is one of get, list, watch, create, update, patch, delete."""

    verb: str
    path: str
    status: int
    agent: str

    @property
    def is_write(self) -> bool:
        return self.verb not in ("get", "list", "watch")


def write_policy(path: Path) -> None:
    """The rules of the log: every request except those of the cluster's own parts and nodes."""
    rules = [
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts"]},
        {"level": "None", "users": list(_PARTS)},
        {"level": "Metadata"},
    ]
    stages = ["RequestReceived", "ResponseStarted"]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": stages, "rules": rules}
    path.write_text(json.dumps(policy, indent=1))


def read_requests(log: Path, agent: str) -> list[Request]:
    """The requests of clients whose name begins so, in order of their end."""
    found = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        name = event.get("userAgent", "")
        if name.startswith(agent):
            path = event["requestURI"].partition("?")[0]
            found.append(Request(event["verb"], path, event.get("responseStatus", {}).get("code", 0), name))
    return found
