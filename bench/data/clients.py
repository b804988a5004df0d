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
class Desk:
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


Move = Callable[[Desk, Workload], Job]


@dataclass(frozen=True)
class Client:
    """`upload` and `resync` take the workload's folder to the service, `download` brings it to
    `desk.folder / work.name`, `listing` lists all of a container; `resync` is None for who has no such verb.
    `most_rounds` caps a slow one.
    """

    name: str
    upload: Move
    download: Move
    listing: Callable[[Desk, str], Job]
    resync: Move | None = None
    most_rounds: int | None = None


# -- gofer


def _gofer(desk: Desk, container: str, root: Path, words: Sequence[str]) -> Job:
    """In the project `root`, whose folders are mapped to those of the container."""
    store = f'{{url: "az://{container}", account: {ACCOUNT}, key: "${{env:BENCH_KEY}}", '
    store += f'endpoint: "{desk.service.endpoint}"}}'
    folders = "".join(f"  {name}: {{store: blob, path: {name}}}\n" for name in (SMALL, LARGE))
    text = f"stores:\n  blob: {store}\nfolders:\n{folders}"
    (root / "gofer.yaml").write_text(text, encoding="utf-8")
    env = {**desk.plan.places.gofer_environment(desk.folder / "home"), "BENCH_KEY": KEY}
    return Job([*gofer_argv(), *words], env, root)


GOFER = Client(
    "gofer",
    lambda desk, work: _gofer(desk, desk.service.upload, work.root, ["u", work.name]),
    lambda desk, work: _gofer(desk, desk.service.download, desk.folder, ["d", work.name]),
    lambda desk, container: _gofer(desk, container, desk.folder, ["ls", "-r", "blob:"]),
    lambda desk, work: _gofer(
        desk, desk.service.download, work.root, ["sync", str(work.folder), f"blob:{work.name}"]
    ),
)


# -- azcopy


def _azcopy(desk: Desk, *words: str) -> Job:
    env = desk.plan.places.environment(
        AZCOPY_LOG_LOCATION=str(desk.folder / "azcopy"),
        AZCOPY_JOB_PLAN_LOCATION=str(desk.folder / "azcopy"),
        AZCOPY_DISABLE_SYSLOG="true",
        LD_LIBRARY_PATH=desk.plan.peers.libraries,
    )
    program = desk.plan.peers.program(AZCOPY, "azcopy")
    return Job([program, *words, "--output-level=essential"], env, desk.folder, open_stdin=True)


_AZCOPY_FLAGS = ("--recursive", "--log-level=NONE")
AZCOPY_CLIENT = Client(
    "azcopy",
    lambda desk, work: _azcopy(
        desk,
        "copy",
        str(work.folder),
        desk.service.url(desk.service.upload),
        "--from-to=LocalBlob",
        "--put-md5",
        *_AZCOPY_FLAGS,
    ),
    lambda desk, work: _azcopy(
        desk,
        "copy",
        desk.service.url(desk.service.download, work.name),
        str(desk.folder),
        "--from-to=BlobLocal",
        *_AZCOPY_FLAGS,
    ),
    lambda desk, container: _azcopy(desk, "list", desk.service.url(container), "--location=Blob"),
    lambda desk, work: _azcopy(
        desk,
        "sync",
        str(work.folder),
        desk.service.url(desk.service.download, work.name),
        "--from-to=LocalBlob",
        *_AZCOPY_FLAGS,
    ),
)


# -- rclone


def _rclone(desk: Desk, *words: str) -> Job:
    settings = desk.folder / "rclone.conf"
    settings.write_text(
        f"[blob]\ntype = azureblob\naccount = {ACCOUNT}\nkey = {KEY}\n"
        f"endpoint = {desk.service.endpoint}\nuse_emulator = true\n",
        encoding="ascii",
    )
    program = desk.plan.peers.program(RCLONE, "rclone")
    argv = [program, "--config", str(settings), *_RCLONE_FAST, *words]
    return Job(argv, desk.plan.places.environment(), desk.folder)


RCLONE_CLIENT = Client(
    "rclone",
    lambda desk, work: _rclone(desk, "copy", str(work.folder), f"blob:{desk.service.upload}/{work.name}"),
    lambda desk, work: _rclone(
        desk, "copy", f"blob:{desk.service.download}/{work.name}", str(desk.folder / work.name)
    ),
    lambda desk, container: _rclone(desk, "lsf", "-R", "--format=pst", f"blob:{container}"),
    lambda desk, work: _rclone(desk, "sync", str(work.folder), f"blob:{desk.service.download}/{work.name}"),
)


# -- the SDK


def _sdk(desk: Desk, verb: str, folder: Path, container: str, prefix: str) -> Job:
    env = desk.plan.places.environment(AZURE_URL=desk.service.endpoint, AZURE_KEY=KEY)
    python = desk.plan.peers.program(SDK, "python")
    script = str(DRIVERS / "azure_sdk.py")
    return Job([python, script, verb, str(folder), container, prefix], env, desk.folder)


SDK_CLIENT = Client(
    "azure-storage-blob",
    lambda desk, work: _sdk(desk, "up", work.folder, desk.service.upload, work.name),
    lambda desk, work: _sdk(desk, "down", desk.folder / work.name, desk.service.download, work.name),
    lambda desk, container: _sdk(desk, "list", desk.folder, container, ""),
    most_rounds=1,
)

CLIENTS = (GOFER, AZCOPY_CLIENT, RCLONE_CLIENT, SDK_CLIENT)
