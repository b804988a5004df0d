"""`AksHome`: a `Home` with a login at the simulated Azure, and a resource group of its own there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from home import Home
from services.azure import Azure

from simulators.azure.resources import SUBSCRIPTION

VERSION = "api-version=2026-08-01"
_KINDS = [f"{verb}-{what}" for verb in ("create", "update", "delete") for what in ("cluster", "pool")]


class AksHome(Home):
    """`group` exists only when a command has made it."""

    def __init__(self, root: Path, azure: Azure) -> None:
        super().__init__(root)
        self.azure = azure
        self.environ |= {**azure.env(), "HOME": str(root)}
        self.group = f"group-{os.urandom(4).hex()}"
        self.quick()

    def close(self) -> None:
        """Also the clusters go, whose cores would count against those of the next test."""
        path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{self.group}"
        self.azure.ask("DELETE", f"{path}?api-version=2021-04-01")
        super().close()

    def quick(self, **seconds: float) -> None:
        """How long operations take, by kind with `_` for `-`; each that is not named, a tenth of a second."""
        wanted = dict.fromkeys([*_KINDS, "delete-group"], 0.1)
        wanted |= {kind.replace("_", "-"): value for kind, value in seconds.items()}
        self.turn(seconds=wanted, retry_after="0")

    def turn(self, **what: Any) -> Any:
        """Change the simulator: see `ManagedClusters.configure`."""
        return self.azure.admin("POST", "/aks", what)

    @property
    def where(self) -> list[str]:
        return ["--subscription-id", SUBSCRIPTION, "--resource-group", self.group]

    def create(self, name: str = "pet", *more: str, status: int = 0) -> Any:
        """`gofer cluster create`; its JSON, or what it wrote to stderr when it fails."""
        words = ["cluster", "create", name, *self.where, "--location", "eastus", "--json", *more]
        done = self.gofer(*words, status=status)
        return json.loads(done.out) if status == 0 else done.err

    def show(self, name: str = "pet", *more: str) -> Any:
        return json.loads(self.gofer("cluster", "show", name, "--json", *more).out)

    def url(self, name: str, more: str = "") -> str:
        group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{self.group}"
        return f"{group}/providers/Microsoft.ContainerService/managedClusters/{name}{more}?{VERSION}"

    def arm(self, name: str = "pet", more: str = "") -> Any:
        """The resource as the service has it; None when there is none."""
        status, answer = self.azure.ask("GET", self.url(name, more))
        return answer if status == 200 else None

    def has_group(self) -> bool:
        path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{self.group}?api-version=2021-04-01"
        return self.azure.ask("GET", path)[0] == 200

    def requests(self, method: str, part: str) -> list[Any]:
        """The requests since `listen` with this method whose path has this part."""
        found = self.azure.admin("GET", "/request-log")["requests"]
        return [one for one in found if one["method"] == method and part in one["path"]]

    def listen(self) -> None:
        self.azure.admin("POST", "/request-log")
