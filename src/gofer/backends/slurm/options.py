"""The options of a target of kind `slurm`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gofer.backends.base import Capabilities


def _text(description: str, **more: Any) -> Any:
    return Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description=description, **more)


_SIZE = r"^[0-9]+[KMGT]?$(?!\n)"
_WORD = r"^[^\s,;|&<>'\"\\]+$(?!\n)"


class SlurmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How gofer reaches the site and what it asks of Slurm.

    Options that are left out take the site's defaults.
    """

    login: (
        Annotated[
            str,
            Meta(
                min_length=1,
                pattern=r"^[^\s/-][^\s/]*$(?!\n)",
                description="The login node, as a host for `ssh` (default: this machine is a login node)",
            ),
        ]
        | None
    ) = None
    folder: Annotated[str, _text("A folder for gofer's own files that login and compute nodes share")] = (
        "~/.gofer"
    )
    python: Annotated[str, _text("Python 3.8 or newer on login and compute nodes")] = "python3"
    partition: Annotated[str, Meta(pattern=r"^[\w.,-]+$(?!\n)", description="`--partition`")] | None = None
    account: Annotated[str, Meta(pattern=_WORD, description="`--account`")] | None = None
    qos: Annotated[str, Meta(pattern=_WORD, description="`--qos`")] | None = None
    constraint: Annotated[str, _text("`--constraint`: features that the nodes must have")] | None = None
    gpus_per_node: Annotated[
        int, Meta(ge=0, le=1024, description="GPUs of one node; 0 for a site without GPUs")
    ] = 0
    gpu_type: (
        Annotated[str, Meta(pattern=r"^[\w.-]+$(?!\n)", description="The type in `--gres=gpu:TYPE:N`")] | None
    ) = None
    gres: Annotated[str, Meta(pattern=_WORD, description="Other `--gres` of each node than GPUs")] | None = (
        None
    )
    cpus_per_gpu: (
        Annotated[int, Meta(ge=1, description="CPUs for each GPU, for jobs that set no CPUs")] | None
    ) = None
    cpus_per_node: (
        Annotated[int, Meta(ge=1, description="CPUs of each node, for jobs that set no CPUs and use no GPUs")]
        | None
    ) = None
    mem_per_gpu: Annotated[str, Meta(pattern=_SIZE, description="Memory for each GPU: `60G`")] | None = None
    mem_per_node: (
        Annotated[str, Meta(pattern=_SIZE, description="Memory of each node; `0` for all of it")] | None
    ) = None
    time: (
        Annotated[
            float,
            Meta(description="The time limit of jobs that set none", extra={"duration": "positive"}),
        ]
        | None
    ) = None
    reservation: Annotated[str, Meta(pattern=_WORD, description="`--reservation`")] | None = None
    nodelist: Annotated[str, _text("`--nodelist`: nodes that the job must get")] | None = None
    exclude: Annotated[str, _text("`--exclude`: nodes that the job must not get")] | None = None
    signal: (
        Annotated[
            str,
            Meta(
                pattern=r"^(SIG)?(USR1|USR2|HUP)@[0-9]+$(?!\n)",
                description="`USR1@120`: send a signal to every rank this many seconds before the time limit",
            ),
        ]
        | None
    ) = None
    requeue: Annotated[
        bool, Meta(description="Whether Slurm restarts a run that was preempted or lost its node")
    ] = True
    array_limit: Annotated[int, Meta(ge=1, description="Rows of an array that may run at once")] | None = None
    extra: Annotated[
        tuple[Annotated[str, _text("")], ...], Meta(description="More `#SBATCH` options, copied unchanged")
    ] = ()
    modules: Annotated[
        tuple[Annotated[str, Meta(pattern=_WORD)], ...], Meta(description="Modules that the job loads")
    ] = ()
    prelude: Annotated[str, Meta(description="Lines of bash at the start of the job's script")] = ""
    container: Annotated[str, _text("The image of the container; it must contain Python")] | None = None
    container_runtime: Annotated[
        Literal["pyxis", "apptainer"], Meta(description="How the site starts containers")
    ] = "pyxis"
    container_mounts: Annotated[
        tuple[Annotated[str, Meta(pattern=_WORD)], ...],
        Meta(description="More folders in the container: `/path` or `/path:/path/in/container`"),
    ] = ()
    scratch: (
        Annotated[
            str,
            _text("A folder on each node for working copies (default: $SLURM_TMPDIR, $TMPDIR or /tmp)"),
        ]
        | None
    ) = None
    patience: Annotated[
        float,
        Meta(
            description="How long Slurm may not know a submitted run before the run is lost",
            extra={"duration": "positive"},
        ),
    ] = 120.0


def sees_environment(options: SlurmOptions) -> bool:
    """Whether jobs get the environment of the shell that called `sbatch`.

    Over a login, that is another shell.
    """
    return options.login is None and options.container is None


def capabilities(options: SlurmOptions) -> Capabilities:
    return Capabilities(
        sees_environment=sees_environment(options),
        has_ends_in_folder=True,
        holds_runs=True,
        time_limit_s=options.time,
    )
