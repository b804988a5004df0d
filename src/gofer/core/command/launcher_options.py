"""Options and variables that a launcher gets from gofer: the nodes of its run, the master address,
hostfiles.
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from gofer.core.command.command_launcher import (
    ACCELERATE,
    DEEPSPEED_NO_SSH,
    MODULE_OPTION,
    OPTIONS_OF_PYTHON,
    PYTHON,
    TORCHRUN,
    Launcher,
    detect,
    given_options,
    skip_wrappers,
)
from gofer.core.files import write_whole
from gofer.core.launch import NodePlace
from gofer.core.node_request import NodeRequest

_TORCHRUN_MODULE = "torch.distributed.run"


class Launched(NamedTuple):
    """A command as it is started on one node, with the additional variables that it gets."""

    argv: List[str]
    environment: Dict[str, str]


class Hostfiles(NamedTuple):
    """Paths of the hostfiles of a run, in the format of Open MPI and in that of Hydra (MPICH, Intel MPI)."""

    slots: str
    hydra: str


class LaunchResources(NamedTuple):
    """What a launcher may use: the GPUs of the whole run, the process slots of a node, and the hostfiles.

    `in_slurm`: the run is a Slurm job, where Open MPI reads the hosts from Slurm's variables.
    `accelerate_config`: the node has a file written by `accelerate config`, which says what kind of run this
    is.
    """

    gpus: int
    slots: int
    files: Hostfiles
    in_slurm: bool = False
    accelerate_config: bool = False

    def with_config_in(self, environ: Mapping[str, str]) -> LaunchResources:
        """The same, with `accelerate_config` set if the file of `accelerate config` exists in its usual
        place.
        """
        cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", ""), ".cache")
        home = environ.get("HF_HOME") or os.path.join(cache, "huggingface")
        names = ("default_config.yaml", "default_config.json")
        has_file = any(os.path.isfile(os.path.join(home, "accelerate", name)) for name in names)
        return self._replace(accelerate_config=has_file)


def resources_of(request: NodeRequest, files: Hostfiles, *, in_slurm: bool) -> LaunchResources:
    """The resources of a run. A node has as many slots as the run has GPUs on it, or CPUs if it has no
    GPUs.
    """
    layout = request.layout
    gpus = int(layout.gpus_per_node or 0)
    slots = gpus or int(layout.cpus_per_proc or 1)
    return LaunchResources(gpus * layout.nodes, slots, files, in_slurm)


def hosts_with_slots(place: NodePlace, slots: int) -> List[Tuple[str, int]]:
    """Each host with its slots. Nodes that are all on one machine count as one host."""
    if is_one_machine(place):
        return [("localhost", slots * place.nodes)]
    return [(host, slots) for host in place.hosts]


def is_one_machine(place: NodePlace) -> bool:
    """Whether a run has several nodes and all of them are on one machine."""
    return len(set(place.hosts)) == 1 and place.nodes > 1


def render_hostfiles(hosts: Sequence[Tuple[str, int]]) -> Tuple[str, str]:
    """The contents of both files of `Hostfiles`."""
    plain = "".join(f"{host} slots={slots}\n" for host, slots in hosts)
    return plain, "".join(f"{host}:{slots}\n" for host, slots in hosts)


def write_hostfiles(place: NodePlace, resources: LaunchResources) -> None:
    """Write both files of `Hostfiles`, for a launcher that reads the names of all nodes.

    A launcher that is started on each node counts the lines. For these, each node gets a line with a name of
    its own, even when all nodes are on one machine.
    """
    hosts = hosts_with_slots(place, resources.slots)
    if is_one_machine(place) and not place.first_node_only:
        hosts = [(f"node-{node}", resources.slots) for node in range(place.nodes)]
    for path, text in zip(resources.files, render_hostfiles(hosts)):
        write_whole(path, text.encode())


def prepare(name: str, argv: List[str], place: NodePlace, resources: LaunchResources) -> Launched:
    """The command of a launcher, as it is started on one node of a run."""
    launcher = detect(argv)
    if launcher is None or launcher.name != name:
        return Launched(argv, {})
    if launcher.spans_nodes:
        return _spanning(launcher, argv, place, resources)
    if place.nodes == 1:
        return Launched(argv, {})
    where = f"{place.hosts[0]}:{place.port}"
    if name == TORCHRUN:
        return Launched(
            argv,
            {
                "PET_NNODES": str(place.nodes),
                "PET_NODE_RANK": str(place.node),
                "PET_MASTER_ADDR": place.hosts[0],
                "PET_MASTER_PORT": str(place.port),
                "PET_RDZV_ENDPOINT": where,
                "PET_RDZV_ID": place.run_id,
            },
        )
    if name == ACCELERATE:
        return _accelerate(launcher, argv, place, resources)
    if name == DEEPSPEED_NO_SSH:
        options = {
            "hostfile": resources.files.slots,
            "node_rank": str(place.node),
            **_deepspeed_master(place),
        }
        return Launched(_with_options(launcher, argv, options), {"GOFER_HOSTFILE": resources.files.slots})
    names = ("num_nodes", "node_rank", "main_address", "main_port")
    return Launched(_with_options(launcher, argv, _node_options(names, place)), {})


def _node_options(names: Sequence[str], place: NodePlace) -> Dict[str, str]:
    """The nodes and the master address as options, for launchers that read no variables for them."""
    return dict(zip(names, (str(place.nodes), str(place.node), place.hosts[0], str(place.port))))


def _deepspeed_master(place: NodePlace) -> Dict[str, str]:
    return {"master_addr": place.hosts[0], "master_port": str(place.port)}


# Options of `accelerate launch` that say what kind of run it is.
_ACCELERATE_KINDS = {
    *("multi_gpu", "cpu", "tpu", "tpu_use_cluster", "use_deepspeed", "use_fsdp", "use_megatron_lm"),
    *("config_file", "mpirun_hostfile"),
}


def _accelerate(
    launcher: Launcher, argv: List[str], place: NodePlace, resources: LaunchResources
) -> Launched:
    """With one GPU per node, accelerate joins the nodes only if it gets `--multi_gpu`. Without GPUs
    accelerate starts one process, which finds the others by the rank variables.
    """
    names = ("num_machines", "machine_rank", "main_process_ip", "main_process_port")
    options = _node_options(names, place)
    options["num_processes"] = str(max(resources.gpus, place.nodes))
    argv = _with_options(launcher, argv, options)
    if not resources.gpus:
        values = (place.node, place.nodes, 0, 1)
        ranks = zip(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"), map(str, values))
        return Launched(argv, dict(ranks))
    has_kind = resources.accelerate_config or bool(_ACCELERATE_KINDS & set(given_options(launcher, argv)))
    more = [] if has_kind else ["--multi_gpu"]
    return Launched([*argv[: launcher.at], *more, *argv[launcher.at :]], {})


def _with_options(launcher: Launcher, argv: List[str], options: Mapping[str, str]) -> List[str]:
    """Add options that the command does not have yet, in front of the launcher's own options."""
    given = given_options(launcher, argv)
    more = [f"--{name}={value}" for name, value in options.items() if name not in given]
    return [*argv[: launcher.at], *more, *argv[launcher.at :]]


def _spanning(launcher: Launcher, argv: List[str], place: NodePlace, resources: LaunchResources) -> Launched:
    """Always set GOFER_HOSTFILE. On several nodes, also add the options and variables that the launcher
    reads.
    """
    environment = {"GOFER_HOSTFILE": resources.files.slots}
    if place.nodes == 1:
        return Launched(argv, environment)
    names_hosts = bool({"hostfile", "hosts", "H"} & set(given_options(launcher, argv)))
    if launcher.name == "mpirun":
        environment.update(_for_mpirun(place.nodes, resources))
    elif launcher.name == "horovodrun" and not names_hosts:
        argv = _with_options(launcher, argv, {"hostfile": resources.files.slots})
    elif launcher.name == "deepspeed" and not names_hosts:
        argv = _with_options(launcher, argv, {"hostfile": resources.files.slots, **_deepspeed_master(place)})
        if is_one_machine(place):  # one machine may have no SSH server
            argv = [*argv[: launcher.at], "--no_ssh_check", *argv[launcher.at :]]
    return Launched(argv, environment)


def _for_mpirun(nodes: int, resources: LaunchResources) -> Dict[str, str]:
    """Variables for Hydra (MPICH, Intel MPI), and for Open MPI 4 and 5, which prefer Slurm's variables to a
    hostfile.
    """
    found = dict.fromkeys(("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"), resources.files.hydra)
    if resources.in_slurm:
        found["SLURM_TASKS_PER_NODE"] = f"{resources.slots}(x{nodes})"
    else:
        names = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
        found.update(dict.fromkeys(names, resources.files.slots))
    return found


def under_torchrun(argv: List[str], place: NodePlace, workers: int) -> Launched:
    """Turn `python train.py` into `python -m torch.distributed.run … train.py`, with `workers` on the
    node.
    """
    at = min(skip_wrappers(argv), len(argv) - 1)
    options = [f"--nproc-per-node={workers}"]
    if place.nodes > 1:
        options += [f"--nnodes={place.nodes}", f"--node-rank={place.node}"]
        options += [f"--master-addr={place.hosts[0]}", f"--master-port={place.port}"]
    else:
        options += ["--standalone"]
    before, program, rest = argv[:at], argv[at], argv[at + 1 :]
    if not PYTHON.fullmatch(os.path.basename(program)):
        return Launched(
            [*before, "python", "-m", _TORCHRUN_MODULE, *options, "--no-python", program, *rest], {}
        )
    script = 0
    while script < len(rest) and rest[script].startswith("-") and not _ends_options(rest[script]):
        script += 2 if rest[script] in OPTIONS_OF_PYTHON else 1
    own, rest = rest[:script], rest[script:]
    module = MODULE_OPTION.fullmatch(rest[0]) if rest else None
    if module is not None:
        letters = rest[0][: module.start(1) - 1]
        own += [letters] if letters != "-" else []
        rest = ["--module", *([module[1]] if module[1] else []), *rest[1:]]
    elif rest and rest[0].startswith("-c"):  # torchrun itself takes no such text
        rest = ["--no-python", program, *own, *rest]
    return Launched([*before, program, *own, "-m", _TORCHRUN_MODULE, *options, *rest], {})


def _ends_options(word: str) -> bool:
    """Whether a word is the last of Python's own options: a module or a text to execute."""
    return MODULE_OPTION.fullmatch(word) is not None or word.startswith("-c")
