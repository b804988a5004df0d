"""The script that `sbatch` is given. Pure: the same for the same record and target.

It runs in the run's own folder on the site, from where it finds the agent. One step starts one agent on each
node; the last program of the script writes down what came of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gofer.backends.slurm.options import SlurmOptions
from gofer.backends.slurm.request import Request
from gofer.text import quote_command, quote_word

# gofer's own limit comes first, and there must be time to say so.
_MARGIN_S = 60.0


def render(request: Request, options: SlurmOptions, *, agent: str, cpus_asked: bool) -> str:
    """`agent` names the agent's folder; `cpus_asked` says that the job itself names a number of CPUs."""
    lines = ["#!/bin/bash"]
    lines += [f"#SBATCH {one}" for one in _directives(request, options, cpus_asked=cpus_asked)]
    lines += ["", "told=0", "trap 'told=1' TERM", 'room="$SLURM_SUBMIT_DIR"']
    lines += [f'agent="${{room%/slurm/*}}/agent/{agent}"']
    lines += [f"module load {quote_word(one)}" for one in options.modules]
    lines += options.prelude.splitlines()
    lines += ['GOFER_HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"', "export GOFER_HOSTS"]
    # Ignores PYTHONPATH and its kin, which are for the command and not for the agent.
    python = f"{quote_word(options.python)} -E -s -m"
    lines += ['cd "$agent" || exit 1']
    lines += [f'{_step(request, options, cpus_asked=cpus_asked)} {python} gofer.agent.slurm.node "$room"']
    lines += [f'{python} gofer.agent.slurm.end "$room" "$?" "$told"']
    return "\n".join(lines) + "\n"


def _directives(request: Request, options: SlurmOptions, *, cpus_asked: bool) -> Iterator[str]:
    yield f"--job-name={request.id}"
    yield "--output=slurm-%A_%a.out" if request.rows else "--output=slurm-%j.out"
    yield "--open-mode=append"
    yield "--requeue" if options.requeue else "--no-requeue"
    if request.rows:
        limit = "" if options.array_limit is None else f"%{options.array_limit}"
        yield f"--array=0-{len(request.rows) - 1}{limit}"
    yield f"--nodes={request.layout.nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={_cpus(request, options, cpus_asked=cpus_asked)}"
    yield from _gres(request, options)
    yield from _memory(request, options)
    yield from _times(request, options)
    for name in ("partition", "account", "qos", "constraint", "reservation", "nodelist", "exclude"):
        value = getattr(options, name)
        if value is not None:
            yield f"--{name}={quote_word(value)}"
    yield from options.extra


def _cpus(request: Request, options: SlurmOptions, *, cpus_asked: bool) -> int:
    """Of each node: as the job says, else as the target says, else one for each process."""
    layout = request.layout
    if not cpus_asked and layout.gpus_per_node and options.cpus_per_gpu:
        return layout.gpus_per_node * options.cpus_per_gpu
    if not cpus_asked and options.cpus_per_node:
        return options.cpus_per_node
    return layout.procs_per_node * layout.cpus_per_proc


def _gres(request: Request, options: SlurmOptions) -> Iterator[str]:
    count = request.layout.gpus_per_node
    kind = f"{options.gpu_type}:" if options.gpu_type else ""
    words = [f"gpu:{kind}{count}"] if count else []
    words += [options.gres] if options.gres else []
    if words:
        yield f"--gres={','.join(words)}"


def _memory(request: Request, options: SlurmOptions) -> Iterator[str]:
    if request.layout.gpus_per_node and options.mem_per_gpu:
        yield f"--mem-per-gpu={options.mem_per_gpu}"
    elif options.mem_per_node:
        yield f"--mem={options.mem_per_node}"


def _times(request: Request, options: SlurmOptions) -> Iterator[str]:
    """Slurm counts in minutes. Its limit is the second to come; the signal is before the first."""
    limit_s = request.time_limit_s
    late_s = 0.0
    if limit_s is not None:
        minutes = math.ceil((limit_s + request.grace_s + _MARGIN_S) / 60)
        late_s = minutes * 60 - limit_s
        yield f"--time={minutes}"
    if options.signal is not None:
        name, _, before = options.signal.partition("@")
        yield f"--signal={name}@{int(before) + math.ceil(late_s)}"


def _step(request: Request, options: SlurmOptions, *, cpus_asked: bool) -> str:
    """One agent a node, whatever the site's MPI; how an agent ends is told by the agents themselves."""
    words = [
        "srun",
        "--ntasks-per-node=1",
        f"--cpus-per-task={_cpus(request, options, cpus_asked=cpus_asked)}",
    ]
    words += ["--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL"]
    if options.container is None:
        return quote_command(words)
    own = ['"${room%/slurm/*}"', *([_path(request.store)] if request.store else [])]
    if options.container_runtime == "pyxis":
        given = ",".join(
            [f"{one}:{one}" for one in own] + [quote_word(one) for one in options.container_mounts]
        )
        inside = [f"--container-image={quote_word(options.container)}", f"--container-mounts={given}"]
        return " ".join(
            [quote_command(words), *inside, "--no-container-entrypoint", '--container-workdir="$agent"']
        )
    binds = [f"--bind {one}" for one in [*own, *(quote_word(one) for one in options.container_mounts)]]
    gpus = ["--nv"] if request.layout.gpus_per_node else []
    image = quote_word(options.container)
    return " ".join([quote_command(words), "apptainer exec", *gpus, *binds, '--pwd "$agent"', image])


def _path(text: str) -> str:
    """For bash; `~` is the home there."""
    home, _, rest = text.partition("/")
    return f'"$HOME"/{quote_word(rest)}' if home == "~" else quote_word(text)
