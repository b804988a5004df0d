"""The plan of a Slurm run: the request that the nodes get, and the batch script.

Pure, without secrets. The same record and target give the same script. It runs in the run's handoff
folder on the site and finds the agent from there. One step starts one agent on each node; the last
program of the script records the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from gofer.backends.node_request import CommonRequest, common_fields
from gofer.backends.slurm.facts import GpuChoice
from gofer.backends.slurm.options import SlurmOptions, sees_environment
from gofer.config.batch_script import GPU_OPTIONS, find_option, parse_signal
from gofer.config.sbatch_options import parse_array
from gofer.model.job import Job
from gofer.model.run import RunRecord
from gofer.node.packages.package_files import AUTO, NONE
from gofer.node.slurm.job_name import job_name
from gofer.text import quote_command, quote_word

# When a batch script sets Slurm's time limit, gofer ends the command this much earlier: then gofer, and not
# Slurm's kill, ends the run, and the recorded reason is the time limit.
_BEFORE_SLURM_S = 5.0
# Added to gofer's own time limit, so that gofer ends the run and records the reason before Slurm kills the
# job.
_MARGIN_S = 60.0
# Variables that `srun` reads as options. Those of a batch script are meant for the script's own steps and
# would change the step that starts the agents.
_OF_STEPS = (
    *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_DISTRIBUTION"),
    *("SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_THREADS_PER_CORE"),
    *(
        "SLURM_CPUS_PER_TASK",
        "SLURM_CPUS_PER_GPU",
        "SLURM_GPUS",
        "SLURM_GPUS_PER_NODE",
        "SLURM_GPUS_PER_TASK",
    ),
    *("SLURM_GPUS_PER_SOCKET", "SLURM_GPU_BIND", "SLURM_TRES_PER_TASK", "SLURM_EXCLUSIVE", "SLURM_HINT"),
    *("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE"),
)
_BATCH_VARIABLES = """GOFER_SLURM="$(env -0 | grep -z '^SLURM_' | tr '\\0' '\\n')\""""


class SlurmRequest(CommonRequest, frozen=True, kw_only=True):
    """`store` is a folder that the nodes see; None where an uploader sends the nodes' output to a store.

    Row i of an array has the values `rows[i]` of `columns`; a single run has no rows. `sbatch` are the
    options of a batch script, None for other commands. `batch_signal` is a signal for the script alone, with
    the seconds after the start at which it is sent. `passes_signals` says that signals of Slurm reach the
    command.
    """

    store: str | None
    scratch: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name: str
    sbatch: tuple[str, ...] | None
    batch_signal: tuple[str, float] | None
    passes_signals: bool


def make_request(record: RunRecord, options: SlurmOptions, *, store: str | None) -> SlurmRequest:
    """Make the request. Pure: equal for equal records and targets."""
    array = record.array
    packages = NONE if sees_environment(options) else AUTO
    return SlurmRequest(
        **{**common_fields(record, packages=packages), "time_limit_s": limit_s(record, options)},
        store=store,
        scratch=options.scratch,
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
        name=record.name,
        sbatch=record.job.sbatch,
        batch_signal=_batch_signal(record.job),
        passes_signals=find_option(record.job.sbatch or (), "signal") is None,
    )


def limit_s(record: RunRecord, options: SlurmOptions) -> float | None:
    """The time limit of the job, or else that of the target."""
    own_s = record.job.time_limit_s
    if own_s is None:
        return options.time
    if find_option(record.job.sbatch or (), "time") is None:
        return own_s
    return max(own_s - _BEFORE_SLURM_S, own_s / 2)


def with_job(options: SlurmOptions, job: Job, gpus: GpuChoice) -> SlurmOptions:
    """The options, with the memory and the type of GPU that the job asks for in place of the target's."""
    found = options
    if job.resources.memory_mib:
        size = f"{job.resources.memory_mib}M"
        found = msgspec.structs.replace(found, mem_per_gpu=None, mem_per_node=size)
    if gpus.gres_type is not None:
        found = msgspec.structs.replace(found, gpu_type=gpus.gres_type)
    if gpus.feature is not None:
        both = f"({options.constraint})&{gpus.feature}" if options.constraint else gpus.feature
        found = msgspec.structs.replace(found, gpu_type=None, constraint=both)
    return found


def _batch_signal(job: Job) -> tuple[str, float] | None:
    """The signal that a batch script asks Slurm to send to itself. gofer's agent sends it to the command."""
    text = find_option(job.sbatch or (), "signal")
    if text is None or job.time_limit_s is None:
        return None
    to_batch, name, before_s = parse_signal(text)
    return (name, max(job.time_limit_s - before_s, 0.0)) if to_batch else None


class SlurmPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is sent to the site, except the secrets. Pure data."""

    record: RunRecord
    request: SlurmRequest
    script: str

    def render(self) -> str:
        """The script as `sbatch` gets it, followed by the user's command as a comment."""
        command = quote_command(self.request.command).replace("\n", "\\n")
        return f"{self.script}\n# runs on each rank: {command}\n"


def render(request: SlurmRequest, options: SlurmOptions, *, agent: str, cpus_asked: bool) -> str:
    """`agent` names the agent's folder; `cpus_asked` says that the job itself sets a number of CPUs."""
    lines = ["#!/bin/bash"]
    lines += [f"#SBATCH {entry}" for entry in _directives(request, options, cpus_asked=cpus_asked)]
    lines += ["", "told=0", "trap 'told=1' TERM", 'room="$SLURM_SUBMIT_DIR"']
    lines += [f'agent="${{room%/slurm/*}}/agent/{agent}"']
    lines += prepare_lines(options)
    lines += ['GOFER_HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"', "export GOFER_HOSTS"]
    # srun changes Slurm's variables for its step. GOFER_SLURM keeps them as the command should see them.
    lines += [_BATCH_VARIABLES, "export GOFER_SLURM"]
    if _starts_steps(request):
        lines += [f"unset {' '.join(_OF_STEPS)}"]
    # `-E -s`: PYTHONPATH and similar variables are meant for the user's command and could break the agent.
    python = f"{quote_word(options.python)} -E -s -m"
    lines += ['cd "$agent" || exit 1']
    lines += [f'{_step(request, options, cpus_asked=cpus_asked)} {python} gofer.node.slurm.node "$room"']
    lines += [f'{python} gofer.node.slurm.end "$room" "$?" "$told"']
    return "\n".join(lines) + "\n"


def prepare_lines(options: SlurmOptions) -> list[str]:
    """The lines of bash before the target's Python starts: its modules and its prelude."""
    return [*(f"module load {quote_word(entry)}" for entry in options.modules), *options.prelude.splitlines()]


def _directives(request: SlurmRequest, options: SlurmOptions, *, cpus_asked: bool) -> Iterator[str]:
    given = _own_option_names(request)
    yield f"--job-name={job_name(request.id, request.name)}"
    yield "--output=slurm-%A_%a.out" if request.rows else "--output=slurm-%j.out"
    # A requeued job writes to the same file, and must not erase what its earlier attempts wrote.
    yield "--open-mode=append"
    if not given & {"requeue", "no-requeue"}:
        yield "--requeue" if options.requeue else "--no-requeue"
    if request.rows:
        yield f"--array=0-{len(request.rows) - 1}{_rows_at_once(request, options)}"
    yield f"--nodes={request.layout.nodes}"
    if not given & {"ntasks", "ntasks-per-node"}:
        tasks = request.layout.gpus_per_node or 1 if request.command_launcher == "srun" else 1
        yield f"--ntasks-per-node={tasks}"
        if not given & {"cpus-per-task", "cpus-per-gpu"}:
            yield f"--cpus-per-task={max(_cpus(request, options, cpus_asked=cpus_asked) // tasks, 1)}"
    if not given.intersection(GPU_OPTIONS):
        yield from _gres(request, options)
    if not given & {"mem", "mem-per-cpu", "mem-per-gpu"}:
        yield from _memory(request, options)
    if "time" not in given:
        yield from _times(request, options)
    for name in ("partition", "account", "qos", "constraint", "reservation", "nodelist", "exclude"):
        value = getattr(options, name)
        if value is not None and name not in given:
            yield f"--{name}={quote_word(value)}"
    yield from options.extra
    yield from _of_script(request)


def _starts_steps(request: SlurmRequest) -> bool:
    """Whether the command has steps of its own for the tasks of the job: a batch script, or `srun` itself."""
    return request.sbatch is not None or request.command_launcher == "srun"


def _own_option_names(request: SlurmRequest) -> set[str]:
    """The names of the options that a batch script sets itself. They win over the target's options."""
    return {word[2:].partition("=")[0] for word in request.sbatch or ()}


def _of_script(request: SlurmRequest) -> Iterator[str]:
    """The options of a batch script, except those that gofer handles itself."""
    for word in request.sbatch or ():
        name, equals, value = word[2:].partition("=")
        if name != "array" and not (name == "signal" and request.batch_signal is not None):
            yield f"--{name}={quote_word(value)}" if equals else f"--{name}"


def _rows_at_once(request: SlurmRequest, options: SlurmOptions) -> str:
    script = find_option(request.sbatch or (), "array")
    limit = options.array_limit if script is None else parse_array(script).at_once
    return "" if limit is None else f"%{limit}"


def _cpus(request: SlurmRequest, options: SlurmOptions, *, cpus_asked: bool) -> int:
    """CPUs of each node: as the job says, else as the target says, else one for each process."""
    layout = request.layout
    if not cpus_asked and layout.gpus_per_node and options.cpus_per_gpu:
        return layout.gpus_per_node * options.cpus_per_gpu
    if not cpus_asked and options.cpus_per_node:
        return options.cpus_per_node
    return layout.procs_per_node * layout.cpus_per_proc


def _gres(request: SlurmRequest, options: SlurmOptions) -> Iterator[str]:
    count = request.layout.gpus_per_node
    kind = f"{options.gpu_type}:" if options.gpu_type else ""
    words = [f"gpu:{kind}{count}"] if count else []
    words += [options.gres] if options.gres else []
    if words:
        yield f"--gres={','.join(words)}"


def _memory(request: SlurmRequest, options: SlurmOptions) -> Iterator[str]:
    if request.layout.gpus_per_node and options.mem_per_gpu:
        yield f"--mem-per-gpu={options.mem_per_gpu}"
    elif options.mem_per_node:
        yield f"--mem={options.mem_per_node}"


def _times(request: SlurmRequest, options: SlurmOptions) -> Iterator[str]:
    """The time limit and the early signal. Slurm's limit has whole minutes and lies after gofer's own limit.

    Slurm counts the signal back from its own limit, so the distance between the two limits is added.
    """
    limit_s = request.time_limit_s
    late_s = 0.0
    if limit_s is not None:
        minutes = math.ceil((limit_s + request.grace_s + _MARGIN_S) / 60)
        late_s = minutes * 60 - limit_s
        yield f"--time={minutes}"
    if options.signal is not None:
        name, _, before = options.signal.partition("@")
        yield f"--signal={name}@{int(before) + math.ceil(late_s)}"


def _step(request: SlurmRequest, options: SlurmOptions, *, cpus_asked: bool) -> str:
    """The `srun` command that starts one agent on each node, whatever MPI the site has.

    The agents record their own ends, so srun kills nothing when one fails. The step reserves nothing, so that
    `srun` in a run can use the job's resources too: `--overlap` covers CPUs, and from Slurm 22.05 on GPUs and
    memory; `--mem=0` covers memory in older versions.
    """
    words = [
        "srun",
        "--overlap",
        "--mem=0",
        "--nodes=" + str(request.layout.nodes),
        "--ntasks=" + str(request.layout.nodes),
        "--ntasks-per-node=1",
    ]
    if not _starts_steps(request):
        words += [f"--cpus-per-task={_cpus(request, options, cpus_asked=cpus_asked)}"]
    # A failed agent must not end the others before they have recorded their own ends.
    words += ["--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL"]
    if options.container is None:
        return quote_command(words)
    # In a container the agents also need gofer's folder, and the store where it is a folder.
    own = ['"${room%/slurm/*}"', *([_path(request.store)] if request.store else [])]
    if options.container_runtime == "pyxis":
        given = ",".join(
            [f"{entry}:{entry}" for entry in own] + [quote_word(entry) for entry in options.container_mounts]
        )
        inside = [f"--container-image={quote_word(options.container)}", f"--container-mounts={given}"]
        return " ".join(
            [quote_command(words), *inside, "--no-container-entrypoint", '--container-workdir="$agent"']
        )
    binds = [
        f"--bind {entry}" for entry in [*own, *(quote_word(entry) for entry in options.container_mounts)]
    ]
    gpus = ["--nv"] if request.layout.gpus_per_node else []
    image = quote_word(options.container)
    return " ".join([quote_command(words), "apptainer exec", *gpus, *binds, '--pwd "$agent"', image])


def _path(text: str) -> str:
    """The path quoted for bash; `~` is the home directory on the node."""
    home, _, rest = text.partition("/")
    return f'"$HOME"/{quote_word(rest)}' if home == "~" else quote_word(text)
