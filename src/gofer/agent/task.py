"""One node's share of an attempt as it is told to an agent, and what its command is given. Pure."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from gofer.agent import folder, launch
from gofer.agent.rows import substitute
from gofer.agent.sealed import Private


class Task(NamedTuple):
    """`request` is what gofer.backends.node_request describes and more, `args` an array row's values."""

    request: dict[str, Any]
    place: launch.Place
    args: dict[str, str]
    code: str
    private: Private

    @property
    def store(self) -> str:
        return str(self.request["store"])

    @property
    def spans(self) -> bool:
        """Whether nodes of the run are on other machines, with queues of their own."""
        return self.request.get("span") is not None

    @property
    def workdir(self) -> str:
        return os.path.normpath(os.path.join(self.code, self.request.get("workdir") or "."))

    @property
    def argv(self) -> list[str]:
        command: list[str] = self.request["command"]
        return substitute(command, self.args) if self.args else command

    def environment(self, place: launch.Place, rank: int, more: Mapping[str, str]) -> dict[str, str]:
        """All that the command of a rank finds; `more` comes from what started it, under gofer's own."""
        tags = self.request["tags"]
        own = {
            "GOFER_RUN_DIR": os.path.join(self.store, folder.run_key(place.run_id)),
            "GOFER_OUTPUT_DIR": os.path.join(self.store, folder.outputs_key(place.run_id)),
            "GOFER_TARGET": self.request["target"],
            "GOFER_TAGS": ",".join(f"{k}={v}" if v else k for k, v in tags.items()),
            "PWD": self.workdir,
        }
        return {
            **self.private.environment,
            **more,
            **launch.rank_environment(place, rank),
            **launch.argument_environment(self.args),
            **own,
        }
