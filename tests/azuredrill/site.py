"""Where the drill is held: a workspace with a compute and a virtual cluster, and a person before it."""

from __future__ import annotations

import hashlib
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from home import Home
from linedrill.course import Course, Ground, Tally, is_refused
from services.azure import Azure, azure_sim

from azuredrill.canary import Canary, CommandLines
from azuredrill.trouble import KINDS, Kind, ServiceTrouble
from gofer.testing.azure.tokens import SECRET
from gofer.testing.azure.world import GROUP, SUBSCRIPTION, WORKSPACE

_CONFIG = """\
targets:
  aml: {{kind: azureml, {workspace}, compute: cpu-cluster, environment: "sklearn-1.5:1", store: blob}}
  sing: {{kind: azureml, {workspace}, platform: singularity, virtual_cluster: sim-vc, instance_type: D2_v3,
    sla: basic, environment: "sklearn-1.5:1", store: blob}}
stores:
  blob: {{url: "az://{container}/me", account: {account}, endpoint: "{endpoint}",
    key: "${{secret:store-key}}"}}
job:
  env: {{CANARY: "${{secret:canary}}"}}
"""
_LOOKS = (
    ("list", "runs"),
    ("list", "jobs", "--server", "-t", "aml", "--max", "150"),
    ("list", "jobs", "--server", "-t", "sing", "--max", "20", "--debug"),
    ("q", "last"),
    ("q", "last", "--debug"),
    ("logs", "last"),
    ("target", "show", "sing"),
)
_NAP_S = 1.0
# A silent service is waited for by gofer for a minute, and asked again.
_SUBMIT_S = 240.0


@dataclass
class Site:
    """A drill that is ready: `course` runs it, `trouble` tells what was done to jobs besides."""

    course: Course
    trouble: ServiceTrouble
    lines: CommandLines

    def run(self, faults: int, *, submitters: int = 3) -> Tally:
        with self.lines:
            tally = self.course.run(faults, submitters=submitters)
        tally.wrong += sorted(self.lines.wrong)
        return tally

    def render(self, tally: Tally) -> str:
        taken = ", ".join(f"{kind} {count}" for kind, count in sorted(self.trouble.taken.items()))
        return (
            f"{tally.render()}\njobs disturbed: {taken or 'none'}; command lines looked at {self.lines.seen}"
        )


@contextmanager
def on_azure(folder: Path, seed: int, kinds: Mapping[str, Kind] = KINDS) -> Iterator[Site]:
    """A person's home in `folder/person`, and in `folder/service` what nobody but the service sees."""
    with azure_sim(folder / "service", options=("--page", "25")) as azure:
        azure.admin("POST", "/virtualclusters", {"limits": {"Dv3": {"Basic": 3}}})
        canary = f"canary-{secrets.token_hex(12)}"
        home = _home(folder / "person", azure, canary)
        known = {"the canary": canary, "the store's key": azure.account().key, "the client's secret": SECRET}
        trouble, watch = ServiceTrouble(azure, kinds), Canary(known)
        ground = Ground(
            home,
            trouble,
            _words,
            looks=_LOOKS,
            tail=f"{_shown(canary)} && sleep {_NAP_S:g}",
            submit_s=_SUBMIT_S,
            may_refuse=True,
            checks=lambda runs: [*_unknown(azure, runs, trouble), *_secrets(watch, home, azure)],
        )
        yield Site(Course(ground, seed=seed), trouble, CommandLines(watch, folder))


def _home(root: Path, azure: Azure, canary: str) -> Home:
    home = Home(root)
    home.environ.update(azure.env())
    account = azure.account()
    workspace = f"subscription_id: {SUBSCRIPTION}, resource_group: {GROUP}, workspace: {WORKSPACE}"
    home.configure(
        _CONFIG.format(
            workspace=workspace,
            container=azure.container("drill"),
            account=account.name,
            endpoint=account.endpoint,
        )
    )
    for name, value in (("canary", canary), ("store-key", account.key)):
        argv = home.argv("secret", "set", "-Q", name)
        subprocess.run(argv, input=value.encode(), cwd=home.folder, env=home.environ, check=True, timeout=60)
    return home


def _words(rng: Random) -> list[str]:
    return ["-t", rng.choice(["aml", "sing"]), *(["--debug"] if rng.random() < 0.3 else [])]


def _shown(canary: str) -> str:
    """Shell that fails unless the secret came along, and does not name it."""
    digest = hashlib.sha256(canary.encode()).hexdigest()
    return f'test "$(printf %s "$CANARY" | sha256sum | cut -c 1-64)" = {digest}'


def _unknown(azure: Azure, runs: dict[str, dict[str, object]], trouble: ServiceTrouble) -> Iterator[str]:
    """The service has a job for each run, none besides, and says the same of how it ended.

    It refuses one only by saying 409 twice: gofer asks once more.
    """
    jobs = {job["name"]: job["status"] for job in azure.admin("GET", "/jobs")["value"]}
    for name in sorted(jobs.keys() - runs.keys()):
        yield f"the service has the job {name}, and no ledger knows it"
    refused = {name for name, run in runs.items() if is_refused(run)}
    if len(refused) > trouble.suffered()["409"] // 2:
        yield f"refused, and the service did not say so: {sorted(refused)}"
    for name in sorted(runs.keys() - jobs.keys() - refused):
        yield f"the run {name} is no job of the service"
    for name in sorted(refused & jobs.keys()):
        yield f"the run {name} was refused, and is a job of the service"
    for name in sorted(runs.keys() & jobs.keys()):
        if runs[name]["state"] == "succeeded" and jobs[name] != "Completed":
            yield f"the run {name} succeeded, and the service says {jobs[name]}"


def _secrets(canary: Canary, home: Home, azure: Azure) -> Iterator[str]:
    yield from canary.in_files(home.root)
    yield from canary.in_store(azure)
    yield from canary.in_jobs(azure)
