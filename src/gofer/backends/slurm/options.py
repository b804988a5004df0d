"""What a target of kind `slurm` says about its site."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


def _text(description: str, **more: Any) -> Any:
    return Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description=description, **more)


_SIZE = r"^[0-9]+[KMGT]?$(?!\n)"
_WORD = r"^[^\s,;|&<>'\"\\]+$(?!\n)"


class SlurmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the site is reached and what is asked of it; what is left out is what the site gives by default."""

    login: (
        Annotated[
            str,
            Meta(
                min_length=1,
                pattern=r"^[^\s/-][^\s/]*$(?!\n)",
                description="The login node, as `ssh` is told; by default this machine is one",
            ),
        ]
        | None
    ) = None
    folder: Annotated[
        str, _text("A folder that login and compute nodes share, for gofer's own files there")
    ] = "~/.gofer"
    python: Annotated[str, _text("Python 3.8 or newer on login and compute nodes")] = "python3"
    partition: Annotated[str, Meta(pattern=r"^[\w.,-]+$(?!\n)", description="`--partition`")] | None = None
    account: Annotated[str, Meta(pattern=_WORD, description="`--account`")] | None = None
    qos: Annotated[str, Meta(pattern=_WORD, description="`--qos`")] | None = None
    constraint: Annotated[str, _text("`--constraint`: features that the nodes must have")] | None = None
    gpus_per_node: Annotated[
        int, Meta(ge=0, le=1024, description="GPUs of one node; 0 is a site without")
    ] = 0
    gpu_type: (
        Annotated[str, Meta(pattern=r"^[\w.-]+$(?!\n)", description="The type in `--gres=gpu:TYPE:N`")] | None
    ) = None
    gres: (
        Annotated[str, Meta(pattern=_WORD, description="More of `--gres` for each node, beside GPUs")] | None
    ) = None
    cpus_per_gpu: (
        Annotated[int, Meta(ge=1, description="CPUs for each GPU, where a job names none")] | None
    ) = None
    cpus_per_node: (
        Annotated[int, Meta(ge=1, description="CPUs of each node, where a job names none and has no GPUs")]
        | None
    ) = None
    mem_per_gpu: Annotated[str, Meta(pattern=_SIZE, description="Memory for each GPU: `60G`")] | None = None
    mem_per_node: (
        Annotated[str, Meta(pattern=_SIZE, description="Memory of each node; `0` is all")] | None
    ) = None
    time: (
        Annotated[
            float,
            Meta(description="The time limit of jobs that name none", extra={"duration": "positive"}),
        ]
        | None
    ) = None
    reservation: Annotated[str, Meta(pattern=_WORD, description="`--reservation`")] | None = None
    nodelist: Annotated[str, _text("`--nodelist`: nodes that must be among those given")] | None = None
    exclude: Annotated[str, _text("`--exclude`: nodes that must not be")] | None = None
    signal: (
        Annotated[
            str,
            Meta(
                pattern=r"^(SIG)?(USR1|USR2|HUP)@[0-9]+$(?!\n)",
                description="`USR1@120`: a signal to every rank so many seconds before the time limit",
            ),
        ]
        | None
    ) = None
    requeue: Annotated[
        bool, Meta(description="Whether Slurm starts a run again that was preempted or lost its node")
    ] = True
    array_limit: Annotated[int, Meta(ge=1, description="How many rows of an array run at once")] | None = None
    extra: Annotated[
        tuple[Annotated[str, _text("")], ...], Meta(description="More `#SBATCH` options, as they are")
    ] = ()
    modules: Annotated[
        tuple[Annotated[str, Meta(pattern=_WORD)], ...], Meta(description="Loaded before anything starts")
    ] = ()
    prelude: Annotated[str, Meta(description="Lines of bash that the job's script begins with")] = ""
    container: Annotated[str, _text("An image that the run runs in; it must hold Python")] | None = None
    container_runtime: Annotated[
        Literal["pyxis", "apptainer"], Meta(description="What the site starts containers with")
    ] = "pyxis"
    container_mounts: Annotated[
        tuple[Annotated[str, Meta(pattern=_WORD)], ...],
        Meta(description="`/path` or `/path:/there`, seen in the container besides gofer's own folders"),
    ] = ()
    scratch: (
        Annotated[
            str,
            _text("A folder of each node for working copies; by default $SLURM_TMPDIR, $TMPDIR or /tmp"),
        ]
        | None
    ) = None
    patience: Annotated[
        float,
        Meta(
            description="A run that Slurm knows nothing of any more is lost after this long",
            extra={"duration": "positive"},
        ),
    ] = 120.0
