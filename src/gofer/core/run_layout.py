"""Names inside a run's folder. Only this module knows the layout of the store.

    runs/<id>/run.json, tags.json, ends.jsonl, file-times, stdin, function.zip
    runs/<id>/outputs/
    runs/<id>/files/
    runs/<id>/copy-<n>/                         only while a command that uses other machines runs
    code/<id>/                                  the code as plain files, where the settings ask for them
    runs/<id>/elastic/lease.<n>, wish.json      of a run whose number of nodes changes
    runs/<id>/attempts/<n>/generation.json      of such a run: its nodes, and why it began and ended
    runs/<id>/attempts/<n>/node-<k>/rank-<r>.log, setup.log, events.jsonl, exit.json, heartbeat.json,
                                    files.jsonl, log-times.jsonl

While a run writes, an object store holds a growing file as parts, `<key>.parts/<start>`: see
gofer.node.uploader.run_folder.

All functions are pure and return keys (relative POSIX paths).
"""

from __future__ import annotations

import re

RUNS = "runs"
SNAPSHOTS = "snapshots"
PACKS = "packs"
CODE = "code"

EVENTS = "events.jsonl"
EXIT = "exit.json"
HEARTBEAT = "heartbeat.json"
SETUP_LOG = "setup.log"
FILE_LIST = "files.jsonl"
LOG_TIMES = "log-times.jsonl"
GENERATION = "generation.json"
WISH = "wish.json"

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
    """The times and permission bits of the code's files. All rows of a group share the object of the
    group.
    """
    return f"{RUNS}/{run_id}/file-times"


def plain_code_key(run_id: str) -> str:
    """The code as plain files, where the settings ask for them. All rows of a group share those of the
    group.
    """
    return f"{CODE}/{run_id}"


def shared_copy_key(run_id: str, attempt: int) -> str:
    """The working copy of a command that itself starts processes on other machines."""
    return f"{RUNS}/{run_id}/c{attempt}"


def stdin_key(run_id: str) -> str:
    """The standard input that was sent with a run. All rows of a group share the object of the group."""
    return f"{RUNS}/{run_id}/stdin"


def function_key(run_id: str) -> str:
    """The function that was sent with a run. All rows of a group share the object of the group."""
    return f"{RUNS}/{run_id}/function.zip"


def git_key(run_id: str) -> str:
    """The small git repository that `--with-git` sends. All rows of a group share the object of the group."""
    return f"{RUNS}/{run_id}/git.tar.gz"


def ends_key(run_id: str) -> str:
    """The file with one line for each ended run of this run or group."""
    return f"{RUNS}/{run_id}/ends.jsonl"


def outputs_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}/outputs"


def files_key(run_id: str) -> str:
    """The folder of files that the command wrote beside its code, by their paths in the working copy."""
    return f"{RUNS}/{run_id}/files"


def node_files_path(node: int, path: str) -> str:
    """The path below `files/` of a node's file. Nodes other than 0 have a folder of their own."""
    return f"node-{node}/{path}" if node else path


def elastic_key(run_id: str) -> str:
    """The folder of what the agents of an elastic run agree on."""
    return f"{RUNS}/{run_id}/elastic"


def attempts_key(run_id: str) -> str:
    return f"{RUNS}/{run_id}/attempts"


def node_key(run_id: str, attempt: int, node: int) -> str:
    return f"{RUNS}/{run_id}/attempts/{attempt}/node-{node}"


def rank_log(rank: int) -> str:
    """The log of a rank. The existence of this file means that the command of the rank was started."""
    return f"rank-{rank}.log"


def parse_log_key(key: str) -> tuple[int, int, int | None] | None:
    """(attempt, node, rank) from the key of a log; the rank is None for the set-up log. None for any other
    key.
    """
    match = _LOG_KEY.search(key)
    if match is None:
        return None
    attempt, node, rank = match.groups()
    return int(attempt), int(node), None if rank is None else int(rank)


def grows(key: str) -> bool:
    """Whether writers only append to the file."""
    return key.endswith(_GROWING) and not key.endswith(f"/{FILE_LIST}")


def part_key(key: str, start: int) -> str:
    """The key of the part of a growing file that begins at `start`. The keys sort by `start`."""
    return f"{key}.parts/{start:015d}"


def parse_part(key: str) -> tuple[str, int] | None:
    """(key of the file, start) from the key of a part; None for any other key."""
    match = _PART_KEY.fullmatch(key)
    return None if match is None else (match.group(1), int(match.group(2)))
