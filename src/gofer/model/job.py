"""What to run, before anything is known of where."""

from __future__ import annotations

import msgspec

from gofer.agent.states import RETRIED_BY_DEFAULT, Reason


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a job asks for. `gpus` counts the whole run; `procs` is per node, `cpus` per process."""

    gpus: int = 0
    nodes: int | None = None
    procs: int | None = None
    cpus: int | None = None


class JobFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A mapped folder of a run: a path in the store at the URL `store`, and how it comes to `./<name>`.

    With the mode `link` it is the person's own folder, `here`, on the machine that the run is for. A
    `read_only` one is lent for reading alone, and a mount of it cannot be written to.
    """

    store: str
    path: str
    mode: str
    here: str | None = None
    read_only: bool = False


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One thing to run, in `workdir` inside its code folder.

    Values of `env` may be references such as `${secret:NAME}`, and are kept as references. Outputs that fit
    a pattern of `sync` go to the store while the run runs, all others at its end; where it is None, the
    target decides: all of them where nodes may be taken back, else none. `folders` are by the names they have
    beside the code.
    """

    command: tuple[str, ...]
    name: str | None = None
    resources: Resources = Resources()
    multi_process: bool = True
    env: dict[str, str] = {}
    setup: str | None = None
    time_limit_s: float | None = None
    grace_s: float = 10.0
    retries: int = 0
    retry_on: tuple[Reason, ...] = RETRIED_BY_DEFAULT
    priority: int = 0
    tags: dict[str, str] = {}
    sync: tuple[str, ...] | None = None
    launcher: str = "spawn"
    workdir: str = "."
    folders: dict[str, JobFolder] = {}


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many runs of one job: `{column}` in the command is replaced by the row's value."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
