"""`AzureDrill`: the drill on a simulated workspace with computes and a virtual cluster, and a user's home."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from home import Home
from linedrill.line_drill import DrillSetup, LineDrill, Tally, is_refused
from services.azure import Azure, azure_sim
from services.proxy import Proxy, Tls, proxied

from azuredrill.blob_faults import BlobFaults
from azuredrill.canary import Canary, CommandLines
from azuredrill.checks import Run, log_errors, output_errors, shown, store_errors
from azuredrill.service_faults import KINDS, PUT_CUT, PUT_LOST, CombinedFaults, FaultKind, ServiceFaults
from azuredrill.work import Work
from drill.clock import Clock, find_compiler
from simulators.azure.certificates import make_certificates
from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE
from simulators.azure.tokens import SECRET

_CONFIG = """\
targets:
  aml: {{kind: azureml, {workspace}, compute: cpu-cluster, environment: "sklearn-1.5:1", store: blob}}
  sing: {{kind: azureml, {workspace}, platform: singularity, virtual_cluster: sim-vc, instance_type: D2_v3,
    sla: basic, environment: "sklearn-1.5:1", store: blob}}
  itp: {{kind: azureml, {workspace}, platform: itp, compute: itp-cluster, instance_type: gpu1,
    environment: "sklearn-1.5:1", store: blob}}
stores:
  blob: {{url: "az://{container}/{prefix}", account: {account}, endpoint: "{endpoint}",
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
_PREFIX = "me"
# gofer waits a minute for an answer and then asks again.
_SUBMIT_S = 240.0


@dataclass
class AzureDrill:
    """A drill that is set up: `line_drill` runs it; `service` and `blobs` count the other faults."""

    line_drill: LineDrill
    service: ServiceFaults
    blobs: BlobFaults
    lines: CommandLines

    def run(self, faults: int, *, submitters: int = 3) -> Tally:
        with self.lines:
            tally = self.line_drill.run(faults, submitters=submitters)
        tally.wrong += sorted(self.lines.wrong)
        return tally

    def render(self, tally: Tally) -> str:
        service, blobs = self.service, self.blobs
        away = {name: service.met_by_clients()[name] for name in (PUT_LOST, PUT_CUT)}
        return (
            f"{tally.render()}\n"
            f"jobs' PUTs that lost their answer, by rules for PUTs alone: {sum(away.values())} "
            f"({_summary(away)})\n"
            f"also, not counted above: late answers of the service {_counted(service.delays())}\n"
            f"requests for blobs {len(blobs.proxy.requests)}, failed {_counted(blobs.met_by_clients())}, "
            f"late {_counted(blobs.delays())}, of both with a SAS, as nodes have it, {blobs.by_nodes}\n"
            f"jobs disturbed: {_summary(service.taken) or 'none'}; command lines looked at {self.lines.seen}"
            + ("" if service.clock else "\nthe person's clock was left alone: no C compiler")
        )


def _summary(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))


def _counted(counts: Counter[str]) -> str:
    return f"{counts.total()} ({_summary(counts)})" if counts else "0"


@contextmanager
def azure_drill(folder: Path, seed: int, kinds: Mapping[str, FaultKind] = KINDS) -> Iterator[AzureDrill]:
    """A user's home in `folder/person`, and the service's own files in `folder/service`."""
    clock = _clock(folder)
    with azure_sim(folder / "service", options=("--page", "25")) as azure, before_blobs(azure) as proxy:
        azure.admin("POST", "/virtualclusters", {"limits": {"Dv3": {"Basic": 3}}})
        canary = f"canary-{secrets.token_hex(12)}"
        container = azure.container("drill")
        home = _home(folder / "person", azure, f"https://127.0.0.1:{proxy.port}", container, canary)
        work = Work(home, canary)
        known = {"the canary": canary, "the store's key": azure.account().key, "the client's secret": SECRET}
        home.environ.update(clock.variables() if clock else {})
        service, blobs = ServiceFaults(azure, kinds, clock), BlobFaults(proxy)
        watch = Canary(known)

        def checks(runs: dict[str, Run]) -> Iterable[str]:
            yield from _unknown(azure, runs, service)
            yield from store_errors(azure, container, f"{_PREFIX}/", runs)
            found = shown(home, folder / "shown")
            yield from log_errors(runs, work.printed_folder, found)
            yield from output_errors(runs, work.printed_folder, found)
            yield from _secrets(watch, home, azure)

        setup = DrillSetup(
            home,
            CombinedFaults(service, blobs),
            work.words,
            questions=_LOOKS,
            tail=work.tail,
            submit_s=_SUBMIT_S,
            may_refuse=True,
            checks=checks,
        )
        yield AzureDrill(LineDrill(setup, seed=seed), service, blobs, CommandLines(watch, folder))


@contextmanager
def before_blobs(azure: Azure) -> Iterator[Proxy]:
    """A proxy in front of Azurite. Everybody except the service itself connects through it."""
    made = make_certificates(azure.folder)
    port = int(azure.blobs.rpartition(":")[2])
    with proxied(port, tls=Tls.of(made.chain, made.key, made.authority)) as proxy:
        yield proxy


def _home(root: Path, azure: Azure, blobs: str, container: str, canary: str) -> Home:
    home = Home(root)
    home.environ.update(azure.env())
    account = azure.account()
    workspace = f"subscription_id: {SUBSCRIPTION}, resource_group: {GROUP}, workspace: {WORKSPACE}"
    home.configure(
        _CONFIG.format(
            workspace=workspace,
            container=container,
            prefix=_PREFIX,
            account=account.name,
            endpoint=f"{blobs}/{account.name}",
        )
    )
    for name, value in (("canary", canary), ("store-key", account.key)):
        argv = home.argv("secret", "set", "-Q", name)
        subprocess.run(argv, input=value.encode(), cwd=home.folder, env=home.environ, check=True, timeout=60)
    return home


def _clock(folder: Path) -> Clock | None:
    """A clock for the user's commands, not for the nodes; None without a C compiler.

    The service's certificates are made a day old: a user whose clock is behind would refuse newer ones.
    """
    compiler = find_compiler()
    if compiler is None:
        return None
    clock = Clock(folder / "clock", compiler)
    clock.set("-86400")
    words = "import sys, pathlib; from simulators.azure.certificates import make_certificates"
    argv = [sys.executable, "-c", f"{words}; make_certificates(pathlib.Path(sys.argv[1]))"]
    env = {**os.environ, **clock.variables()}
    subprocess.run([*argv, str(folder / "service")], env=env, check=True, timeout=60)
    clock.set("+0")
    return clock


def _unknown(azure: Azure, runs: Mapping[str, Run], faults: ServiceFaults) -> Iterator[str]:
    """The service has exactly one job for each run and reports the same outcome.

    The service refuses a run only by answering 409 twice, because gofer retries once.
    """
    jobs = {job["name"]: job["status"] for job in azure.admin("GET", "/jobs")["value"]}
    for name in sorted(jobs.keys() - runs.keys()):
        yield f"the service has the job {name}, and no ledger knows it"
    refused = {name for name, run in runs.items() if is_refused(run)}
    if len(refused) > faults.met_by_clients()["409"] // 2:
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
