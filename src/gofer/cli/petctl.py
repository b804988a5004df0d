"""The command line of petctl, a tool for elastic PyTorch on Azure, with the spellings of its document.

`petctl.py`, which `gofer init --petctl` writes, calls `main`. A verb may also be written as an option, as the
document once does: `petctl.py --upload_storage …`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.cli.main import main as gofer
from gofer.cli.output.failure import explain
from gofer.cli.output.screen import answer_prompt, print_message
from gofer.errors import UsageError
from gofer.importers.petctl import APP, DEFAULT_MASTER_VM, DEFAULT_WORKER_VM
from gofer.ops.messages import Message
from gofer.ops.petctl.cluster import (
    PetLogin,
    SetupRequest,
    delete,
    place_of,
    plan_delete,
    scale,
    setup,
)
from gofer.ops.petctl.configure import PetConfiguration, configure
from gofer.ops.petctl.job import run_job, run_of
from gofer.ops.petctl.project import PetProject
from gofer.ops.petctl.storage import add_account_key, add_container, add_registry, note_upload
from gofer.ops.session import Session
from gofer.text import format_ago

if TYPE_CHECKING:
    from gofer.ops.clusters.delete import ClusterRemoval

Given = argparse.Namespace


def main(argv: Sequence[str]) -> int:
    """Run one verb; the exit status. Every failure ends here as lines on stderr."""
    parser = _parser()
    given = parser.parse_args(_with_verb(argv))
    if given.verb is None:
        parser.print_help()
        return 0
    try:
        with Session(emit=print_message) as session:
            project = PetProject(session)
            project.log_in(project.files.state().cluster)
            return _VERBS[given.verb](project, given)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return explain(error, debug=os.environ.get("GOFER_DEBUG", "0") not in ("", "0"))


def _with_verb(argv: Sequence[str]) -> list[str]:
    """The words, with a verb in place of an option that is called like one."""
    if argv and argv[0].startswith("--") and argv[0][2:] in _VERBS:
        return [argv[0][2:], *argv[1:]]
    return list(argv)


def _configure(project: PetProject, given: Given) -> int:
    sizes = (given.min_size, given.max_size, given.size)
    wanted = PetConfiguration(given.name, *sizes, given.master_vm, given.worker_vm)
    for path in configure(project.files, wanted):
        print_message(Message(f"wrote {os.path.relpath(path)}"))
    return 0


def _setup(project: PetProject, given: Given) -> int:
    login = _login(project, given)
    place = (given.dns_prefix, given.rg, given.location, given.subscription_id)
    made = setup(project, SetupRequest(*place, login))
    print_message(
        Message(f"the cluster `{made.name}` is ready: {sum(one.nodes for one in made.pools)} nodes")
    )
    return 0


def _upload_storage(project: PetProject, given: Given) -> int:
    source = Path(given.source_path).expanduser().absolute()
    if not source.exists():
        raise UsageError(
            f"there is no `{given.source_path}`", hint="`--source_path` takes a file or a folder"
        )
    sas = _secret(project, given, "sas_token")
    store = add_container(project, given.account_name, given.container_name, sas)
    status = gofer(["cp", str(source), f"{store}:"])
    if status == 0:
        note_upload(project, given.container_name, source.name)
    return status


def _storage_secret(project: PetProject, given: Given) -> int:
    add_account_key(project, given.account_name, _secret(project, given, "account_key"))
    print_message(Message(f"the account `{given.account_name}` is used for code, data and runs"))
    return 0


def _docker_secret(project: PetProject, given: Given) -> int:
    password = _secret(project, given, "password")
    add_registry(project, given.server, given.username, password, given.image_name or "")
    print_message(Message(f"the cluster can pull images of `{given.server}`"))
    return 0


def _run_job(project: PetProject, given: Given) -> int:
    row = run_job(project)
    sys.stdout.write(f"{row.id}\n")
    print_message(Message("`python petctl.py check_status` shows how far it is"))
    return 0


def _check_status(project: PetProject, given: Given) -> int:
    return gofer(["q", run_of(project)])


def _get_logs(project: PetProject, given: Given) -> int:
    return gofer(["logs", run_of(project)])


def _scale(project: PetProject, given: Given) -> int:
    login = _login(project, given)
    found = scale(project, place_of(project), login, given.new_node_count)
    for pool in found.pools:
        print_message(Message(f"the pool `{pool.name}` has {pool.nodes} nodes"))
    return 0


def _delete_resources(project: PetProject, given: Given) -> int:
    planned = plan_delete(project)
    if planned is None or planned[1].is_nothing:
        print_message(Message("nothing to do: there is no cluster that petctl made"))
        return 0
    place, removal = planned
    name = place.cluster.name
    _show_removal(removal, name, place.cluster.group)
    if not _is_confirmed(name, given.yes):
        print_message(Message("nothing was removed"))
        return 1
    delete(project, place, removal)
    print_message(Message(f"removed `{name}`; the storage account and what is in it stay"))
    return 0


def _show_removal(removal: ClusterRemoval, name: str, group: str) -> None:
    lines = [f"cluster {name}"] if removal.cluster else []
    lines += [f"node pool {removal.pool}"] if removal.pool else []
    lines += [f"resource group {group}"] if removal.group else []
    lines += [f"{one.kind} {one.name}, started {format_ago(one.age_s)}" for one in removal.work]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _is_confirmed(name: str, given: str | None) -> bool:
    """As for `gofer cluster delete`: by the name of the cluster, typed or given."""
    if given is not None:
        if given != name:
            raise UsageError(f"`--yes {given}` is not the name of the cluster", hint=f"`--yes {name}`")
        return True
    ask = answer_prompt()
    if ask is None:
        raise UsageError(
            f"the cluster `{name}` would be removed, and no terminal can confirm it",
            hint=f"add `--yes {name}`",
        )
    return ask(f"type the name of the cluster to remove it for good ({name}): ") == name


def _login(project: PetProject, given: Given) -> PetLogin:
    return PetLogin(given.client_id, _secret(project, given, "client_secret"))


def _secret(project: PetProject, given: Given, option: str) -> str:
    """The value of the option; `-` stands for stdin."""
    value = str(getattr(given, option))
    if value == "-":
        return sys.stdin.read().strip()
    project.warn_of_history(f"--{option}")
    return value


_VERBS: dict[str, Callable[[PetProject, Given], int]] = {
    "configure": _configure,
    "setup": _setup,
    "upload_storage": _upload_storage,
    "storage_secret": _storage_secret,
    "docker_secret": _docker_secret,
    "run_job": _run_job,
    "check_status": _check_status,
    "get_logs": _get_logs,
    "scale": _scale,
    "delete_resources": _delete_resources,
}
_SUBSCRIPTION = ("--rg", "--location", "--subscription_id", "--client_id", "--client_secret")
# verb -> its help, and the options that it needs
_HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    "configure": ("Write the job and the machines", ("--name",)),
    "setup": ("Make the cluster", _SUBSCRIPTION),
    "upload_storage": (
        "Send code or data to Azure Blob Storage",
        ("--source_path", "--account_name", "--container_name", "--sas_token"),
    ),
    "storage_secret": ("Give the cluster the storage account", ("--account_name", "--account_key")),
    "docker_secret": ("Give the cluster a registry of images", ("--server", "--username", "--password")),
    "run_job": ("Start the training", ()),
    "check_status": ("Show the state of the training", ()),
    "get_logs": ("Print the log of the training", ()),
    "scale": ("Change the number of workers", _SUBSCRIPTION),
    "delete_resources": ("Remove the cluster", ()),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="petctl.py", description="Elastic PyTorch on Azure, by gofer.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    made = {}
    for verb, (help, needed) in _HELP.items():
        made[verb] = verbs.add_parser(verb, help=help, description=f"{help}.")
        for option in needed:
            made[verb].add_argument(option, required=True)
    for option in ("--min_size", "--max_size", "--size"):
        made["configure"].add_argument(option, type=int)
    made["configure"].add_argument("--master_vm", default=DEFAULT_MASTER_VM)
    made["configure"].add_argument("--worker_vm", default=DEFAULT_WORKER_VM)
    made["setup"].add_argument("--dns_prefix", default=APP)
    made["docker_secret"].add_argument("--image_name")
    made["scale"].add_argument("--new_node_count", type=int, required=True)
    made["delete_resources"].add_argument("--yes", metavar="NAME", help="do not ask; the cluster's name")
    return parser
