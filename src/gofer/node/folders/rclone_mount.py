"""Mount folders of object stores with rclone, for one run.

The mount point is outside the working copy, because the working copy is removed with everything in it;
`./data` in the working copy is a link. Beside the mount point are the log of rclone and its cache. The
metadata in the cache tells which files were not sent yet.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from gofer.core import processes
from gofer.core.sleep import pause
from gofer.core.store_spec import StoreSpec
from gofer.node.cancellable_task import WorkFailed, WorkStopped
from gofer.node.folders.unmount import (
    clear_one,
    count_unsent,
    detach,
    is_mounted,
    keep_unsent,
    remove,
    unmounter,
)

KINDS = ("azure", "s3")
_PROGRAM = "rclone"
_REMOTE = "gofer"
_READY_S = 30.0
_LEAVE_S = 10.0
# Do not wait for a store that has accepted nothing for this long.
_STALLED_S = 120.0
# The waits between tries double, so this many tries take two minutes.
_MOST_TRIES = 8
_LOG_BYTES = 65536
_LOOK_S = 0.01
_KEPT_VARIABLES = ("PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")


def problem(path: Optional[str]) -> Optional[str]:
    """Why this machine cannot mount folders with this PATH; None when it can."""
    if shutil.which(_PROGRAM, path=path) is None:
        return f"there is no `{_PROGRAM}` on the PATH"
    if unmounter(path) is None:
        return "there is no `fusermount3` on the PATH"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be used"
    return None


class Mount:
    """One mounted folder; `at` is the mount point. `mount` creates it."""

    def __init__(self, state: str, lock: int) -> None:
        self.state = state
        self.at = os.path.join(state, "at")
        self.pid = 0
        self._lock = lock
        self._who: Optional[processes.ProcessIdentity] = None

    def start(self, argv: List[str], environment: Mapping[str, str]) -> None:
        with open(os.path.join(self.state, "log"), "ab") as log:
            child = subprocess.Popen(
                argv,
                cwd=self.state,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # The agent reaps all its children itself, so this object must not wait for the process.
        child.returncode = 0
        self.pid = child.pid
        self._who = processes.identify(child.pid)

    @property
    def is_alive(self) -> bool:
        _reap(self.pid)
        return self._who is not None and processes.is_alive(self._who)

    @property
    def is_ready(self) -> bool:
        return is_mounted(self.at)

    def last_words(self) -> str:
        """The last line of the program's log, without parts that may hold a credential."""
        lines = self._log().strip().splitlines()
        line = re.sub(r"^\S+ \S+ ", "", lines[-1]) if lines else ""
        return re.sub(r"\?\S*", "", line)[:300]

    def flush(self, keep_on: Callable[[], bool]) -> Optional[str]:
        """Wait until the store has all written files. None when it has, else a sentence about the files that
        are missing.

        `keep_on` waits a moment, and returns False to end the wait.
        """
        known, since = (-1, -1), time.monotonic()
        while True:
            left = count_unsent(self.state)
            if not left:
                return None
            if (left, self._moved()) != known:
                known, since = (left, self._moved()), time.monotonic()
            is_stalled = time.monotonic() - since > _STALLED_S or self._tries() >= _MOST_TRIES
            if is_stalled or not self.is_alive or not keep_on():
                return f"{left} of the files written there are not in the store"

    def _moved(self) -> int:
        """How much the program has read and written, in units that are larger than what an idle program
        moves.
        """
        try:
            with open(f"/proc/{self.pid}/io", "rb") as file:
                return sum(int(line.split()[1]) for line in file if line[:6] in (b"rchar:", b"wchar:")) >> 16
        except OSError:
            return -1

    def _tries(self) -> int:
        """How often the program failed to send one file, according to its log. The program itself never gives
        up.
        """
        found = re.findall(r"failed to upload try #(\d+)", self._log()[-_LOG_BYTES:])
        return max(map(int, found), default=0)

    def _log(self) -> str:
        try:
            with open(os.path.join(self.state, "log"), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def end(self, *, keep_cache: Optional[str] = None) -> None:
        """Unmount, and remove the mount's files. Files that are not in the store are moved to
        `keep_cache`.
        """
        detach(self.at)
        # The program has nothing left to do, but would need a second or more to end by itself.
        deadline = time.monotonic() + _LEAVE_S
        while self._who is not None and self.is_alive and time.monotonic() < deadline:
            processes.send(self._who, signal.SIGKILL)
            pause(_LOOK_S)
        if keep_cache is not None:
            keep_unsent(self.state, keep_cache)
        remove(self.state)
        os.close(self._lock)


def mount(
    spec: StoreSpec,
    state: str,
    environment: Mapping[str, str],
    keep_on: Callable[[], bool],
    *,
    read_only: bool = False,
    options: Sequence[str] = (),
) -> Mount:
    """Mount the folder of `spec`. Blocks until it is mounted; WorkFailed with the reason when that fails.

    `environment` is that of the run. `keep_on` waits a moment; WorkStopped when it returns False. What an
    earlier mount left in the folder `state` is removed first. `options` are flags without their dashes, and
    replace those of gofer.
    """
    clear_one(state)
    os.makedirs(os.path.join(state, "at"), mode=0o700)
    found = Mount(state, os.open(os.path.join(state, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    fcntl.flock(found._lock, fcntl.LOCK_EX)
    try:
        words = _argv(spec, found, environment.get("PATH")) + [f"--{option}" for option in options]
        words += ["--read-only"] if read_only else []
        found.start(words, _environment(spec, environment))
    except OSError:
        found.end()
        raise
    deadline = time.monotonic() + _READY_S
    while not found.is_ready:
        gone = not found.is_alive
        if gone or time.monotonic() > deadline:
            message = found.last_words() or ("it ended" if gone else "it did not come up")
            found.end()
            raise WorkFailed(f"{_PROGRAM} could not mount it: {message}")
        if not keep_on():
            found.end()
            raise WorkStopped
    return found


def _argv(spec: StoreSpec, found: Mount, path: Optional[str]) -> List[str]:
    where = spec["container"] if spec["kind"] == "azure" else spec["bucket"]
    prefix = spec.get("prefix", "")
    return [
        shutil.which(_PROGRAM, path=path) or _PROGRAM,
        "mount",
        f"{_REMOTE}:{where}/{prefix}" if prefix else f"{_REMOTE}:{where}",
        found.at,
        *("--config", ""),
        *("--cache-dir", os.path.join(found.state, "cache")),
        *("--vfs-cache-mode", "writes", "--vfs-write-back", "1s", "--dir-cache-time", "30s"),
    ]


def _environment(spec: StoreSpec, environment: Mapping[str, str]) -> Dict[str, str]:
    """The environment of rclone, with the credentials. Other users can read the arguments of a process, but
    not its environment.
    """
    kept = {name: value for name, value in environment.items() if name.upper() in _KEPT_VARIABLES}
    if "GOFER_RUN_ID" in environment:
        kept["GOFER_RUN_ID"] = environment["GOFER_RUN_ID"]
    options = _azure(spec) if spec["kind"] == "azure" else _s3(spec)
    lead = f"RCLONE_CONFIG_{_REMOTE.upper()}_"
    return {**kept, **{f"{lead}{name}": value for name, value in options.items() if value}}


def _azure(spec: StoreSpec) -> Dict[str, str]:
    endpoint = spec["endpoint"] or ""
    if spec.get("key"):
        words = {"ACCOUNT": spec["account"], "KEY": spec["key"], "ENDPOINT": endpoint}
    else:
        token = spec["sas"].lstrip("?")
        words = {"SAS_URL": f"{endpoint.rstrip('/')}/{spec['container']}?{token}"}
    return {"TYPE": "azureblob", "NO_CHECK_CONTAINER": "true", **words}


def _s3(spec: StoreSpec) -> Dict[str, str]:
    return {
        "TYPE": "s3",
        "PROVIDER": "Other" if spec.get("endpoint") else "AWS",
        "ENDPOINT": spec.get("endpoint") or "",
        "REGION": spec.get("region") or "us-east-1",
        "ACCESS_KEY_ID": spec["access_key"],
        "SECRET_ACCESS_KEY": spec["secret_key"],
        "SESSION_TOKEN": spec.get("session_token") or "",
        "FORCE_PATH_STYLE": "true" if spec.get("endpoint") else "",
        "NO_CHECK_BUCKET": "true",
    }


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
