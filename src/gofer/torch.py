"""PyTorch's process group under any launcher: gofer's own, mpirun, torchrun, or none.

`should_checkpoint` and `restart` are for elastic runs, and need no torch.

    import gofer.torch

    rank, world_size, local_rank, device = gofer.torch.init_process_group()
    model = DistributedDataParallel(Net().to(device))

Loads torch when called, and nothing else of gofer, so this file may be copied beside a training script.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

# The exit status by which a rank asks for a new generation (EX_TEMPFAIL).
_RESTART = 75
_MPI = "OMPI_COMM_WORLD_"
_PORT = "29500"
_HERE = "127.0.0.1"


class Group(NamedTuple):
    """This process among the others; `device` is a `torch.device`."""

    rank: int
    world_size: int
    local_rank: int
    device: Any


class RankPlace(NamedTuple):
    """The place of this process among the ranks, as the environment says it."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def init_process_group(backend: str | None = None, **options: Any) -> Group:
    """Join the process group, and choose this process's device by its local rank.

    `backend` is nccl where every process of the node has a GPU to itself, else gloo. `options` go to
    `torch.distributed.init_process_group`. Blocks until all processes are there. In a group already, it only
    returns the place of this process. Without a launcher this process is a group of one. ValueError when
    processes on several nodes have no address to meet at.
    """
    from importlib import import_module

    torch = import_module("torch")
    place = find_place(os.environ)
    device = _device(torch, place)
    if not torch.distributed.is_initialized():
        if "init_method" not in options and "store" not in options:
            options.update(_init_arguments(torch, place, os.environ))
        chosen = backend or ("nccl" if _has_gpu_each(torch, place) else "gloo")
        torch.distributed.init_process_group(chosen, rank=place.rank, world_size=place.world_size, **options)
    return Group(place.rank, place.world_size, place.local_rank, device)


def ensure_init_process_group(device_id: int | None = None, port: int | None = None) -> None:
    """`init_process_group` under the name and with the arguments that it has in `qd.torch_common`.

    `device_id` is the GPU of this process instead of the one with its local rank. `port` is where the
    processes find each other if no launcher says it.
    """
    from importlib import import_module

    torch = import_module("torch")
    if port is not None:
        os.environ.setdefault("MASTER_PORT", str(port))
    init_process_group()
    if device_id is not None and torch.cuda.is_available():
        torch.cuda.set_device(device_id)


def should_checkpoint() -> bool:
    """Whether gofer asks for a checkpoint, so that nodes can join or leave an elastic run without lost steps.

    Cheap: it looks for one file. Needs no torch, and False outside gofer. Ranks on other nodes can see the
    request some milliseconds later: where all ranks save together, let rank 0 decide and broadcast.
    """
    requests = os.environ.get("GOFER_REQUESTS")
    return requests is not None and os.path.exists(os.path.join(requests, "checkpoint"))


def restart() -> NoReturn:
    """End this process so that the next generation of an elastic run begins: nodes that wait join it.

    Call it after a checkpoint that `should_checkpoint` asked for. Without such a request it is a failure of
    the command.
    """
    raise SystemExit(_RESTART)


def find_place(environ: Mapping[str, str]) -> RankPlace:
    """From the variables of gofer, torchrun or mpirun; one process alone when there are none. Pure.

    Under `gofer submit --single` on several nodes, the process of each node is one rank.
    """
    if "RANK" in environ and "WORLD_SIZE" in environ:
        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
    elif f"{_MPI}RANK" in environ:
        names = [f"{_MPI}{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
    elif "NODE_RANK" in environ and "NNODES" in environ:
        return RankPlace(int(environ["NODE_RANK"]), int(environ["NNODES"]), 0, 1)
    else:
        return RankPlace(0, 1, 0, 1)
    rank, size = (int(environ[name]) for name in names[:2])
    return RankPlace(rank, size, int(environ.get(names[2], rank)), int(environ.get(names[3], size)))


def _init_arguments(torch: Any, place: RankPlace, environ: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of init_process_group with which the processes find each other."""
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return {"init_method": "env://"}
    if place.world_size == 1:
        return {"store": torch.distributed.HashStore()}
    address = environ.get("MASTER_ADDR") or _address_of_azure(environ)
    if place.world_size != place.local_world_size and not address:
        raise ValueError(
            f"{place.world_size} processes on several nodes have no address to meet at: "
            "set MASTER_ADDR to the address of rank 0, and MASTER_PORT to a free port there"
        )
    port = environ.get("MASTER_PORT", _PORT)
    return {"init_method": f"tcp://{address or _HERE}:{port}"}


def _address_of_azure(environ: Mapping[str, str]) -> str:
    """The address of the first node as the services of Azure name it; "" elsewhere."""
    hosts = environ.get("AZ_BATCH_HOST_LIST", "").split(",")
    return hosts[0].strip() or environ.get("AZ_BATCHAI_JOB_MASTER_NODE_IP", "")


def _has_gpu_each(torch: Any, place: RankPlace) -> bool:
    return bool(torch.cuda.is_available() and torch.cuda.device_count() >= place.local_world_size)


def _device(torch: Any, place: RankPlace) -> Any:
    """Processes that are more than the GPUs share them."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", place.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device
