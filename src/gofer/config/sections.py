"""The shape of the files: which keys there are, of what type, in what range, and what each is for.

The decoder and the JSON Schema are both read from these types. `duration` marks text that is a length of
time, `verbatim` text in which `${…}` is no reference.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
import msgspec.inspect
from msgspec import Meta

from gofer.core.states import Reason

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)"

Gpus: TypeAlias = Annotated[int, Meta(ge=0, le=100_000)]
Nodes: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
PerNode: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]
Retries: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
Priority: TypeAlias = Annotated[int, Meta(ge=-1000, le=1000)]
Length: TypeAlias = Annotated[str, Meta(extra={"duration": "any"})]
SomeLength: TypeAlias = Annotated[str, Meta(extra={"duration": "positive"})]
Verbatim: TypeAlias = Annotated[str, Meta(extra={"verbatim": True})]
Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, extra={"verbatim": True})]
Script: TypeAlias = Annotated[str, Meta(min_length=1, extra={"verbatim": True})]
SomeText: TypeAlias = Annotated[str, Meta(min_length=1)]
# A credential: what says where it is kept may stand in a file, the value itself may not.
Kept: TypeAlias = Annotated[str, Meta(min_length=1, extra={"reference": True})]
ImageName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][^\s@]*$(?!\n)", max_length=500)]
Digest: TypeAlias = Annotated[str, Meta(pattern=r"^(sha256:)?[0-9a-f]{64}$(?!\n)", extra={"verbatim": True})]
Address: TypeAlias = Annotated[str, Meta(pattern=r"://")]
RankVariables: TypeAlias = Literal["auto", "always", "never", "mpirun"]
Launcher: TypeAlias = Literal["spawn", "mpi", "torchrun"]
KeepSize: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(none|[0-9]+(\.[0-9]+)? ?([kKmMgGtT]i?)?[bB]?)$(?!\n)",
        max_length=40,
        extra={"form": "a size like `10GiB`, or `none`"},
    ),
]
SomeSize: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]+(\.[0-9]+)? ?([kKmMgGtT]i?)?[bB]?$(?!\n)",
        max_length=40,
        extra={"form": "a size like `10GiB`"},
    ),
]
# The words of GPU names, and of Slurm's types and features.
GpuType: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)", max_length=64)]
Join: TypeAlias = Literal["checkpoint", "now", "never"]
Packages: TypeAlias = Literal["none", "auto", "uv", "pip", "conda"]
Mode: TypeAlias = Literal["mount", "copy", "upload"]
Layout: TypeAlias = Literal["packs", "files"]

VariableName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)",
        max_length=255,
        extra={"form": "letters, digits and `_`, without a digit at the start"},
    ),
]
TagName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]+$(?!\n)",
        max_length=100,
        extra={"form": "letters, digits, `_`, `.` and `-`"},
    ),
]
_ENTRY_FORM = {"form": "letters, digits, `_`, `.` and `-`, with a letter or a digit at the start"}
EntryName: TypeAlias = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=100, extra=_ENTRY_FORM)]
# A name set to nothing removes what a farther file set.
Variables: TypeAlias = dict[VariableName, str | None]
Tags: TypeAlias = dict[TagName, Verbatim | None]
Words: TypeAlias = tuple[Verbatim, ...]


class NodeRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A number of nodes that may change while the run runs."""

    min: Annotated[Nodes, Meta(description="The run trains with no fewer nodes")]
    max: Annotated[Nodes, Meta(description="The run takes no more nodes")]

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"`min` is {self.min} and `max` only {self.max}")


class ElasticSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How nodes become part of a run that has `nodes: {min: 1, max: 5}`."""

    join: Annotated[
        Join, Meta(description="When new nodes join: at the next checkpoint, at once, or when a node is lost")
    ] = "checkpoint"
    join_every: Annotated[Length | None, Meta(description="At most one join in this time; `5m`")] = None
    join_patience: Annotated[
        SomeLength | None, Meta(description="Without a checkpoint, nodes join after this time; `15m`")
    ] = None
    settle: Annotated[
        Length | None, Meta(description="How long the first start waits for more nodes than `min`; `10s`")
    ] = None
    checkpoint: Annotated[
        Words,
        Meta(description="Patterns of checkpoints below the output folder; `*.pt`, `*.ckpt`…"),
    ] = ()


class JobSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The defaults of a job, unless something nearer overrides them."""

    name: Annotated[Line | None, Meta(description="The name of the run that lists show")] = None
    gpus: Annotated[Gpus | None, Meta(description="GPUs of the whole run")] = None
    nodes: Annotated[
        Nodes | NodeRange | None,
        Meta(description="Nodes, or `{min, max}`; by default as few as have the GPUs"),
    ] = None
    elastic: Annotated[
        ElasticSection | None, Meta(description="How nodes join a run with `nodes: {min, max}`")
    ] = None
    procs: Annotated[PerNode | None, Meta(description="Processes per node; by default one per GPU")] = None
    cpus: Annotated[PerNode | None, Meta(description="CPU cores per process")] = None
    memory: Annotated[SomeSize | None, Meta(description="Memory of each node, as `64G`")] = None
    gpu_type: Annotated[GpuType | None, Meta(description="The type of the GPUs, as `a100`")] = None
    env: Annotated[
        Variables | None, Meta(description="Variables for the command; may contain references")
    ] = None
    setup: Annotated[
        Verbatim | None, Meta(description="A shell script run once per node before the command")
    ] = None
    time_limit: Annotated[
        SomeLength | None, Meta(description="The run is ended after this long, as `1h30m`")
    ] = None
    grace: Annotated[
        Length | None, Meta(description="How long a run may take to stop before it is killed")
    ] = None
    retries: Annotated[Retries | None, Meta(description="How often a failed run is started again")] = None
    retry_on: Annotated[
        tuple[Reason, ...] | None, Meta(description="The reasons after which a run is started again")
    ] = None
    priority: Annotated[Priority | None, Meta(description="Runs with a higher number start first")] = None
    tags: Annotated[Tags | None, Meta(description="Labels to find the run by")] = None
    sync: Annotated[
        Words | None,
        Meta(
            description="Patterns of outputs that go to the store while the run runs, `[]` for none "
            "(default: all outputs on targets that may take nodes back, else none)"
        ),
    ] = None
    keep: Annotated[
        KeepSize | None,
        Meta(
            description="How much is kept of what the command writes beside its code, as `10GiB`; `none` "
            "keeps only outputs; `2GiB`"
        ),
    ] = None
    keep_group: Annotated[
        SomeSize | None,
        Meta(description="How much of that the rows of a group keep together (default: `20GiB`)"),
    ] = None
    keep_most: Annotated[
        SomeSize | None,
        Meta(
            description="On nodes whose disk ends with the run: how much is kept of a run that writes more "
            "than `keep`, outputs first, then the newest files; `50GiB`"
        ),
    ] = None
    outputs: Annotated[
        Words | None,
        Meta(description="Patterns of files of any size beside the code that are kept"),
    ] = None
    multi_process: Annotated[bool | None, Meta(description="One process per GPU, or one per node")] = None
    rank_variables: Annotated[
        RankVariables | None,
        Meta(
            description="Whether processes find RANK, WORLD_SIZE, MASTER_ADDR and the like: `auto` sets them "
            "for runs of several processes, `mpirun` as ACT's `mpirun` did"
        ),
    ] = None
    launcher: Annotated[
        Launcher | None, Meta(description="The program that starts the processes on a node")
    ] = None
    packages: Annotated[
        Packages | None,
        Meta(
            description="What installs the Python packages that the code lists, once per node, before "
            "`setup`; by default `none` where the node sees the submitting environment, else `auto`"
        ),
    ] = None
    wheels: Annotated[
        Line | None,
        Meta(
            description="A folder of wheels, of the code or of the node, from which packages come instead of "
            "the Internet"
        ),
    ] = None


class StoreSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A place for code, logs and outputs."""

    url: Annotated[
        Address,
        Meta(
            description="Where the store is: `file:///shared/gofer`, `az://container/prefix`, "
            "`s3://bucket/prefix` or `gs://bucket/prefix`"
        ),
    ]
    account: Annotated[SomeText | None, Meta(description="az: the storage account")] = None
    key: Annotated[
        Kept | None,
        Meta(description="A reference: az: the account's key; gs: the service account's JSON"),
    ] = None
    sas: Annotated[
        Kept | None,
        Meta(description="A reference: az: a shared access signature, or a URL with one"),
    ] = None
    endpoint: Annotated[
        SomeText | None, Meta(description="The service's URL, for emulators, private clouds and other makers")
    ] = None
    region: Annotated[SomeText | None, Meta(description="s3: the region (default: `us-east-1`)")] = None
    access_key: Annotated[SomeText | None, Meta(description="s3: the access key's id")] = None
    secret_key: Annotated[Kept | None, Meta(description="A reference: s3: the secret access key")] = None
    session_token: Annotated[
        Kept | None, Meta(description="A reference: s3: the token of temporary keys")
    ] = None
    hierarchical: Annotated[
        bool | None,
        Meta(
            description="az: the account has a hierarchical namespace, so that the credential of a run "
            "opens only the folder of the store"
        ),
    ] = None
    profile: Annotated[
        SomeText | None,
        Meta(
            description="az: the profile of Azure logins that opens the store, where neither `key` nor `sas` "
            "does; by default the one in use"
        ),
    ] = None


class FolderSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder that is the same here, in a store and on the node."""

    store: Annotated[
        str | None, Meta(description="The name of the store that has the folder (default: the target's)")
    ] = None
    path: Annotated[SomeText, Meta(description="Where it is in the store")]
    mode: Annotated[
        Mode | None,
        Meta(
            description="Mounted, copied before the start, or sent to the store at the end (default: a run "
            "on this machine has the project's own folder if it exists; any other folder is mounted)"
        ),
    ] = None
    read_only: Annotated[
        bool, Meta(description="Whether runs may only read it; a mount refuses to be written to then")
    ] = False
    options: Annotated[
        Words | None,
        Meta(
            description="Options of the mount, as rclone, FUSE or blobfuse write them: `attr_timeout=240`, "
            "`vfs-cache-mode=full`"
        ),
    ] = None


class DockerSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A container image by name, and what makes it fit for Singularity."""

    image: Annotated[ImageName, Meta(description="The image's name in its registry: `me/env:1`")]
    registry: Annotated[
        ImageName | None, Meta(description="The registry's server: `reg.azurecr.io` (default: Docker Hub)")
    ] = None
    sha256: Annotated[
        Digest | None,
        Meta(description="The digest of exactly one version of the image, as its registry shows it"),
    ] = None
    post_sing_steps: Annotated[
        tuple[Script, ...] | None,
        Meta(description="Shell commands, or lines of a Dockerfile, that end the wrapped image"),
    ] = None
    sing_wrap: Annotated[
        bool | None,
        Meta(description="Whether runs on Singularity need it wrapped: `gofer submit` wraps it then"),
    ] = None
    username: Annotated[SomeText | None, Meta(description="Who pushes to the registry")] = None
    password: Annotated[Kept | None, Meta(description="A reference: the registry's password or token")] = None


class SnapshotSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How code is kept in the store."""

    layout: Annotated[
        Layout | None,
        Meta(
            description="`files` also writes the code of each run to the store as plain files, in `code/RUN/`"
            " (default: `packs`, where many files share an object)"
        ),
    ] = None


class StorePlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder in a store."""

    store: Annotated[SomeText, Meta(description="The name of the store")]
    path: Annotated[SomeText, Meta(description="Where the folder is in the store")]

    def __str__(self) -> str:
        return f"{self.store}:{self.path}"


class JobFileSection(JobSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job in a file of its own, for `gofer submit --job FILE`: the keys of `job`, and what to run."""

    command: Annotated[
        Words | Verbatim | None, Meta(description="Words, or one line split as a shell would")
    ] = None
    script: Annotated[Script | None, Meta(description="Instead of `command`, for `bash -euo pipefail`")] = (
        None
    )
    target: Annotated[str | None, Meta(description="The target to run on")] = None
    code: Annotated[
        StorePlace | None,
        Meta(description="The code lies in a store and is taken from there, not from the project"),
    ] = None
    outputs_to: Annotated[
        StorePlace | None,
        Meta(description="A folder of a store to which files that the command writes beside its code go"),
    ] = None
    ignore: Annotated[
        Words | None,
        Meta(description="Patterns of files that stay out of the code of this job, beyond those of settings"),
    ] = None
    each: Annotated[
        dict[str, Words | Verbatim] | None,
        Meta(
            description="Columns of an array: each combination is a run, `{column}` in the command its value"
        ),
    ] = None
    array: Annotated[
        tuple[dict[str, Verbatim], ...] | Verbatim | None,
        Meta(description="The rows of an array: a CSV, TSV or JSONL file, or a list of maps"),
    ] = None


class FileSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a project (`gofer.yaml`) or a user (`config.yaml`).

    `targets` is not here: its keys depend on the kinds there are.
    """

    extends: Annotated[
        Words | Verbatim | None,
        Meta(
            description="Files with settings that this file adds to or replaces, relative to its folder, or "
            "`python:PACKAGE/FILE`"
        ),
    ] = None
    target: Annotated[str | None, Meta(description="The target used when none is named")] = None
    target_groups: Annotated[
        dict[EntryName, tuple[EntryName, ...]] | None,
        Meta(description="Groups of targets by name: `-c NAME` of a command that reads means all of them"),
    ] = None
    stores: Annotated[dict[EntryName, StoreSection] | None, Meta(description="Stores by name")] = None
    folders: Annotated[dict[EntryName, FolderSection] | None, Meta(description="Shared folders by name")] = (
        None
    )
    dockers: Annotated[
        dict[EntryName, DockerSection] | None, Meta(description="Container images by name")
    ] = None
    job: Annotated[JobSection | None, Meta(description="Defaults for every job")] = None
    include: Annotated[
        Words | None,
        Meta(description="Patterns of ignored files that go into snapshots nevertheless, as in `.gitignore`"),
    ] = None
    ignore: Annotated[
        Words | None, Meta(description="Patterns of files that stay out of snapshots, as in `.gitignore`")
    ] = None
    snapshot: Annotated[SnapshotSection | None, Meta(description="How code is kept in the store")] = None


FOLDERS = msgspec.inspect.type_info(dict[EntryName, FolderSection])
IGNORE = msgspec.inspect.type_info(Words)
DEFAULT_GPUS = msgspec.inspect.type_info(Gpus)
# What a name in `targets` may look like, for the decoder.
ENTRIES = msgspec.inspect.DictType(
    key_type=msgspec.inspect.type_info(EntryName),
    value_type=msgspec.inspect.AnyType(),
)
