"""Names inside a run's folder; the one place that knows the layout of the store.

    runs/<id>/run.json, tags.json, ends.jsonl, file-times, stdin
    runs/<id>/outputs/
    runs/<id>/files/
    runs/<id>/copy-<n>/                         only while a command that uses other machines runs
    runs/<id>/attempts/<n>/node-<k>/rank-<r>.log, setup.log, events.jsonl, exit.json, heartbeat.json,
                                    files.jsonl

While a run writes, a file that grows is in an object store as `<key>.parts/<start>`: see
gofer.node.uploader.run_folder.

All functions are pure and return keys (relative POSIX paths).
"""

from __future__ import annotations

import re

RUNS = "runs"
SNAPSHOTS = "snapshots"
PACKS = "packs"

EVENTS = "events.jsonl"
EXIT = "exit.json"
HEARTBEAT = "heartbeat.json"
SETUP_LOG = "setup.log"
FILE_LIST = "files.jsonl"

_GROWING = (".log", ".jsonl")
_PART_KEY = re.compile(r"(.+)\.parts/(\d{15})")
_LOG_KEY = re.compile(r"attempts/(\d+)/node-(\d+)/(?:rank-(\d+)|setup)\.log")


def run_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}"


def record_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}/run.json"


def tags_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}/tags.json"


def times_key(run_id: str) -> str:
    """Where the times and permission bits of the code's files lie; those of a group serve all its rows."""
    return f"{RUNS}/{run_id}/file-times"


def shared_copy_key(run_id: str, attempt: int) -> str:
    """Where the working copy lies of a command that starts processes on other machines by itself."""
    return f"{RUNS}/{run_id}/c{attempt}"


def stdin_key(run_id: str) -> str:
    """Where the standard input of a run lies that was sent along; that of a group serves all its rows."""
    return f"{RUNS}/{run_id}/stdin"


def git_key(run_id: str) -> str:
    """Where the small git repository lies that `--with-git` sends; that of a group serves all its rows."""
    return f"{RUNS}/{run_id}/git.tar.gz"


def ends_key(run_id: str) -> str:
    """Where the queue writes one line for each ended run of this run or group."""
    return f"{RUNS}/{run_id}/ends.jsonl"


def outputs_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}/outputs"


def files_key(run_id: str) -> str:
    """What the command wrote beside its code, by the path it had in the working copy."""
    return f"{RUNS}/{run_id}/files"


def node_files_path(node: int, path: str) -> str:
    """Where below `files/` a node has a file of its own, which differs from that of node 0."""
    return f"node-{node}/{path}" if node else path


def attempts_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}/attempts"


def node_key(run_id: str, attempt: int, node: int) -> str:
    return f"{RUNS}/{run_id}/attempts/{attempt}/node-{node}"


def rank_log(rank: int) -> str:
    """The file whose existence says that the command of this rank was started."""
    return f"rank-{rank}.log"


def parse_log_key(key: str) -> tuple[int, int, int | None] | None:
    """(attempt, node, rank) of a log's key, rank None for set-up; None for any other key."""
    match = _LOG_KEY.search(key)
    if match is None:
        return None
    attempt, node, rank = match.groups()
    return int(attempt), int(node), None if rank is None else int(rank)


def grows(key: str) -> bool:
    """Whether the file is one that its writer only ever adds to."""
    return key.endswith(_GROWING) and not key.endswith(f"/{FILE_LIST}")


def part_key(key: str, start: int) -> str:
    """Where the bytes of a growing file from `start` on lie while it is written; sorts by `start`."""
    return f"{key}.parts/{start:015d}"


def parse_part(key: str) -> tuple[str, int] | None:
    """(key of the whole, start) of a part's key; None for any other key."""
    match = _PART_KEY.fullmatch(key)
    return None if match is None else (match.group(1), int(match.group(2)))
