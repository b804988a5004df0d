"""The clients' command lines, each set as its users set it for speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import measure
from bench.data.place import ACCOUNT, KEY, Service
from bench.data.workload import LARGE, SMALL, Workload
from bench.measure import Sample
from bench.peers import AZCOPY, RCLONE, SDK
from bench.places import DRIVERS, gofer_argv
from bench.plan import Plan

TIMEOUT_S = 600
_RCLONE_FAST = (
    "--transfers=16",
    "--checkers=16",
    "--fast-list",
    "--azureblob-chunk-size=8M",
    "--azureblob-upload-concurrency=8",
    "--azureblob-no-check-container",
)


@dataclass(frozen=True)
class ClientContext:
    """Where a client works: its own folder for settings, and the service."""

    plan: Plan
    service: Service
    folder: Path


@dataclass(frozen=True)
class Job:
    """A command line; `open_stdin` is for azcopy, which spins on a standard input that has ended."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    open_stdin: bool = False

    def run(self) -> Sample:
        """Blocks; BenchError when the command fails."""
        return measure.run(
            self.argv, env=self.env, cwd=self.cwd, timeout_s=TIMEOUT_S, open_stdin=self.open_stdin
        )


Move = Callable[[ClientContext, Workload], Job]


@dataclass(frozen=True)
class Client:
    """`upload` and `resync` copy the folder of the workload to the service. `download` copies it to
    `context.folder / work.name`. `listing` lists a whole container. `resync` is None for a client without it.
    `most_rounds` limits the rounds of a slow client.
    """

    name: str
    upload: Move
    download: Move
    listing: Callable[[ClientContext, str], Job]
    resync: Move | None = None
    most_rounds: int | None = None


# -- gofer


def _gofer(context: ClientContext, container: str, root: Path, words: Sequence[str]) -> Job:
    """In the project `root`, whose folders are mapped to those of the container."""
    store = f'{{url: "az://{container}", account: {ACCOUNT}, key: "${{env:BENCH_KEY}}", '
    store += f'endpoint: "{context.service.endpoint}"}}'
    folders = "".join(f"  {name}: {{store: blob, path: {name}}}\n" for name in (SMALL, LARGE))
    text = f"stores:\n  blob: {store}\nfolders:\n{folders}"
    (root / "gofer.yaml").write_text(text, encoding="utf-8")
    env = {**context.plan.places.gofer_environment(context.folder / "home"), "BENCH_KEY": KEY}
    return Job([*gofer_argv(), *words], env, root)


GOFER = Client(
    "gofer",
    lambda context, work: _gofer(context, context.service.upload, work.root, ["u", work.name]),
    lambda context, work: _gofer(context, context.service.download, context.folder, ["d", work.name]),
    lambda context, container: _gofer(context, container, context.folder, ["ls", "-r", "blob:"]),
    lambda context, work: _gofer(
        context, context.service.download, work.root, ["sync", str(work.folder), f"blob:{work.name}"]
    ),
)


# -- azcopy


def _azcopy(context: ClientContext, *words: str) -> Job:
    env = context.plan.places.environment(
        AZCOPY_LOG_LOCATION=str(context.folder / "azcopy"),
        AZCOPY_JOB_PLAN_LOCATION=str(context.folder / "azcopy"),
        AZCOPY_DISABLE_SYSLOG="true",
        LD_LIBRARY_PATH=context.plan.peers.libraries,
    )
    program = context.plan.peers.program(AZCOPY, "azcopy")
    return Job([program, *words, "--output-level=essential"], env, context.folder, open_stdin=True)


_AZCOPY_FLAGS = ("--recursive", "--log-level=NONE")
AZCOPY_CLIENT = Client(
    "azcopy",
    lambda context, work: _azcopy(
        context,
        "copy",
        str(work.folder),
        context.service.url(context.service.upload),
        "--from-to=LocalBlob",
        "--put-md5",
        *_AZCOPY_FLAGS,
    ),
    lambda context, work: _azcopy(
        context,
        "copy",
        context.service.url(context.service.download, work.name),
        str(context.folder),
        "--from-to=BlobLocal",
        *_AZCOPY_FLAGS,
    ),
    lambda context, container: _azcopy(context, "list", context.service.url(container), "--location=Blob"),
    lambda context, work: _azcopy(
        context,
        "sync",
        str(work.folder),
        context.service.url(context.service.download, work.name),
        "--from-to=LocalBlob",
        *_AZCOPY_FLAGS,
    ),
)


# -- rclone


def _rclone(context: ClientContext, *words: str) -> Job:
    settings = context.folder / "rclone.conf"
    settings.write_text(
        f"[blob]\ntype = azureblob\naccount = {ACCOUNT}\nkey = {KEY}\n"
        f"endpoint = {context.service.endpoint}\nuse_emulator = true\n",
        encoding="ascii",
    )
    program = context.plan.peers.program(RCLONE, "rclone")
    argv = [program, "--config", str(settings), *_RCLONE_FAST, *words]
    return Job(argv, context.plan.places.environment(), context.folder)


RCLONE_CLIENT = Client(
    "rclone",
    lambda context, work: _rclone(
        context, "copy", str(work.folder), f"blob:{context.service.upload}/{work.name}"
    ),
    lambda context, work: _rclone(
        context, "copy", f"blob:{context.service.download}/{work.name}", str(context.folder / work.name)
    ),
    lambda context, container: _rclone(context, "lsf", "-R", "--format=pst", f"blob:{container}"),
    lambda context, work: _rclone(
        context, "sync", str(work.folder), f"blob:{context.service.download}/{work.name}"
    ),
)


# -- the SDK


def _sdk(context: ClientContext, verb: str, folder: Path, container: str, prefix: str) -> Job:
    env = context.plan.places.environment(AZURE_URL=context.service.endpoint, AZURE_KEY=KEY)
    python = context.plan.peers.program(SDK, "python")
    script = str(DRIVERS / "azure_sdk.py")
    return Job([python, script, verb, str(folder), container, prefix], env, context.folder)


SDK_CLIENT = Client(
    "azure-storage-blob",
    lambda context, work: _sdk(context, "up", work.folder, context.service.upload, work.name),
    lambda context, work: _sdk(
        context, "down", context.folder / work.name, context.service.download, work.name
    ),
    lambda context, container: _sdk(context, "list", context.folder, container, ""),
    most_rounds=1,
)

CLIENTS = (GOFER, AZCOPY_CLIENT, RCLONE_CLIENT, SDK_CLIENT)
