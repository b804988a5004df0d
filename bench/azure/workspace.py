"""A workspace for the measurement, and a gofer and an SDK in front of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import measure
from bench.errors import BenchError
from bench.measure import Sample
from bench.peers import AZURE_ML
from bench.places import DRIVERS, REPOSITORY, gofer_argv, module_environment
from bench.plan import Plan

TESTS = str(REPOSITORY / "tests")
TIMEOUT_S = 300
# States of gofer that are kept: it has sent both runs and asked nothing since; it knows how one ended.
SENT, ENDED = "sent", "ended"
_CONFIG = """\
targets:
  lab: {{kind: azureml, subscription_id: {sub}, resource_group: {group}, workspace: {name},
    compute: cpu-cluster, environment: "sklearn-1.5:1", experiment: bench, store: blob}}
stores:
  blob: {{url: "az://{container}/me", account: {account}, endpoint: "{endpoint}", key: "${{env:STORE_KEY}}"}}
target: lab
"""


class Service:
    """The simulator's own interface, asked through the process that runs it."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self.facts: dict[str, Any] = self._line()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """BenchError when it is gone."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps([method, path, body]) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise BenchError(f"the simulator is gone: {self._words()}") from error
        return self._line()

    def requests(self) -> Counter[str]:
        """What clients asked since this was last called, by method and path, less those for blobs."""
        asked: dict[str, int] = self.ask("GET", "/counters")["requests"]
        self.ask("DELETE", "/counters")
        found: Counter[str] = Counter()
        for route, count in asked.items():
            if "/_sim/" not in route:
                found[_short(route)] += count
        return found

    def _line(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the simulator is gone: {self._words()}")
        return json.loads(line)

    def _words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"


def _short(route: str) -> str:
    """`GET jobs/{name}` for `GET /subscriptions/…/workspaces/{ws}/jobs/{name}`."""
    method, _, path = route.partition(" ")
    tail = path.rpartition("/workspaces/{ws}")[2].strip("/") or "workspace"
    for login in ("{tenant}/oauth2/v2.0/", "{tenant}/v2.0/.well-known/"):
        tail = tail.replace(login, "")
    return f"{method} {tail}"


@dataclass(frozen=True)
class BenchWorkspace:
    """One workspace with jobs in it, one person who uses gofer, one who uses the SDK."""

    plan: Plan
    service: Service
    root: Path

    @classmethod
    def of(cls, plan: Plan, service: Service) -> BenchWorkspace:
        root = plan.places.fresh("azure")
        facts = service.facts
        sub, group, name = facts["workspace"]
        text = _CONFIG.format(sub=sub, group=group, name=name, **facts)
        for folder in ("project", "sdk"):
            (root / folder).mkdir()
            for number in range(10):
                (root / folder / f"module_{number}.py").write_text(
                    f"ANSWER = {number}\n" * 50, encoding="ascii"
                )
        (root / "project" / "gofer.yaml").write_text(text, encoding="utf-8")
        return cls(plan, service, root)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def env(self) -> dict[str, str]:
        """gofer's."""
        found = self.plan.places.gofer_environment(self.home)
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        # Of the source tree, if gofer is not installed; what the simulator needs is not gofer's.
        kept = [one for one in path if one and Path(one).resolve() != Path(TESTS)]
        found.pop("PYTHONPATH", None)
        found |= {"PYTHONPATH": os.pathsep.join(kept)} if kept else {}
        return {**found, **self.service.facts["env"], "STORE_KEY": self.service.facts["key"]}

    def gofer(self, *words: str) -> Sample:
        return measure.run(
            [*gofer_argv(), *words], env=self.env, cwd=self.root / "project", timeout_s=TIMEOUT_S
        )

    def sdk(self, *words: str, keeps_login: bool = False) -> Sample:
        """The driver with `words`, in the SDK's own interpreter, with a login kept from one time to the next
        or without, as it comes.
        """
        sub, group, name = self.service.facts["workspace"]
        env = self.plan.places.environment(
            **self.service.facts["env"],
            WORKSPACE_SUBSCRIPTION=sub,
            WORKSPACE_GROUP=group,
            WORKSPACE_NAME=name,
            **({"WORKSPACE_KEEPS_LOGIN": "yes"} if keeps_login else {}),
        )
        argv = [self.plan.peers.program(AZURE_ML, "python"), str(DRIVERS / "azureml_sdk.py"), *words]
        return measure.run(argv, env=env, cwd=self.root / "sdk", timeout_s=TIMEOUT_S)

    def edit(self, folder: str, turn: int) -> None:
        """The code that a submission takes along is new each time."""
        (self.root / folder / "train.py").write_text(f"print('turn {turn}')\n", encoding="ascii")

    def remember(self, state: str) -> None:
        """Keep gofer's state as it is now, for `go_back`."""
        shutil.rmtree(self.root / state, ignore_errors=True)
        shutil.copytree(self.home, self.root / state, symlinks=True)

    def go_back(self, state: str, *, keeps_login: bool = True) -> None:
        """Restores gofer's earlier state, without the answers that it got since."""
        shutil.rmtree(self.home)
        shutil.copytree(self.root / state, self.home, symlinks=True)
        for folder in [] if keeps_login else [*self.home.rglob("tokens")]:
            shutil.rmtree(folder)


@contextmanager
def start_workspace(plan: Plan) -> Iterator[BenchWorkspace]:
    """It ends with the block, or with this process. BenchError when it cannot be started."""
    if TESTS not in map(os.path.abspath, sys.path):
        raise BenchError("the workspace is that of the tests: `make bench-azure`, or PYTHONPATH=tests")
    folder = plan.places.fresh("service")
    env = module_environment(plan.places.environment())
    with open(folder / "words.log", "wb") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.azure.service", str(folder)],
            env=_with_tests(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
        )
    try:
        yield BenchWorkspace.of(plan, Service(process, folder / "words.log"))
    finally:
        process.communicate(timeout=TIMEOUT_S)


def _with_tests(env: Mapping[str, str]) -> dict[str, str]:
    return {**env, "PYTHONPATH": os.pathsep.join([TESTS, env["PYTHONPATH"]])}
