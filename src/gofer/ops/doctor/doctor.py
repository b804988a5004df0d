"""Check whether gofer can work on this machine: one check for each thing that it needs, with a hint.

The checks write only a small object to each store and remove it again.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.core.gpus import open_driver
from gofer.core.states import FINAL_STATES
from gofer.errors import LedgerCorrupt
from gofer.model.checks import Check, Status, guarded
from gofer.model.ids import split_row
from gofer.node import cgroups
from gofer.node.code.work_folders import long_root
from gofer.ops.accounts.machine_logins import find_login, machines_of
from gofer.ops.runs.target_views import fact
from gofer.ops.runs.target_views import words as text_of
from gofer.queue import wake
from gofer.queue.database import Queue
from gofer.storage.base import OnDisk
from gofer.text import format_duration, format_local_time, format_size, quote_word
from gofer.tracking.ledger import Ledger
from gofer.tracking.query import Query

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.transport.shared_connection import OpenConnection


_LITTLE_SPACE = 1 << 30
_CLOCK_S = 60.0
_TOLD = ("gpus", "gpus_per_node", "cpus")


def checks(session: Session) -> list[Check]:
    """Run every check, in a fixed order. Blocks. Problems are reported as a Check and never raised."""
    found = list(check_programs(session.environ.get("PATH", os.defpath)))
    found += [*check_gpus(), *check_endings()]
    settings = guarded("settings", lambda: _check_settings(session))
    found += settings
    found += guarded("secrets", lambda: _check_secrets(session.paths.secrets_file))
    found += guarded("ledger", lambda: _check_ledger(session.paths.ledger_file))
    found += guarded("disk", lambda: _check_space(session.paths.ledger_file))
    if all(check.ok for check in settings):
        for name in session.settings.store_names:
            found += guarded(f"store {name}", functools.partial(_check_store, session, name))
        found += guarded("login", lambda: _check_logins(session))
        found += guarded("target", lambda: _check_target(session))
    found += guarded("queue", lambda: check_queue(str(session.paths.queue_home)))
    return found


def _check_settings(session: Session) -> Iterator[Check]:
    settings = session.settings
    files = [str(path) for path in reversed(settings.files)]
    yield Check("settings", Status.OK, ", ".join(files) or "no file; the built-in ones are used")
    for warning in settings.warnings:
        yield Check("settings", Status.WARN, warning)


def _check_secrets(path: Path) -> Iterator[Check]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        yield Check("secrets", Status.OK, "none")
        return
    if mode & 0o077:
        hint = f"`chmod 600 {quote_word(str(path))}`, and change what others may have read"
        yield Check("secrets", Status.FAIL, f"{path} can be used by others (mode {mode:04o})", hint)
    else:
        yield Check("secrets", Status.OK, f"{path}, readable only by you")


def _check_ledger(path: Path) -> Iterator[Check]:
    """Check the ledger. This does not use `session.ledger`, which would replace a damaged ledger."""
    if not path.exists():
        yield Check("ledger", Status.OK, "none yet; the first submission makes it")
        return
    try:
        with Ledger.open(path) as ledger:
            ledger.check()
            yield Check("ledger", Status.OK, f"{path}, {ledger.count(Query())} runs")
    except LedgerCorrupt as error:
        hint = "`gofer ledger rebuild` sets it aside and reads the stores"
        yield Check("ledger", Status.FAIL, error.message, hint)


def _check_space(path: Path) -> Iterator[Check]:
    """Check the free space of the file system with the ledger and the queue."""
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    yield _space("disk", folder)


def _check_store(session: Session, name: str) -> Iterator[Check]:
    store = session.store(name)
    key = f"doctor/probe-{secrets.token_hex(8)}"
    data = os.urandom(64)
    began = time.monotonic()
    try:
        store.put(key, data)
        info, read = store.head(key), store.get(key)
    finally:
        store.delete([key])
    if read != data or info is None:
        yield Check(f"store {name}", Status.FAIL, f"{store.url} returned other bytes than were written")
        return
    took = format_duration(time.monotonic() - began)
    yield Check(f"store {name}", Status.OK, f"{store.url} writes and reads ({took})")
    yield from _check_clock(name, store, info.modified - time.time())
    if isinstance(store, OnDisk):
        yield _space(f"store {name} disk", store.path("doctor").parent)


def _check_clock(name: str, store: Store, ahead_s: float) -> Iterator[Check]:
    """Compare the clocks. A store uses its own clock for the times of objects, so ages are wrong by the
    difference.
    """
    if abs(ahead_s) > _CLOCK_S:
        which = "ahead of" if ahead_s > 0 else "behind"
        words = f"the clock of {store.url} is {format_duration(abs(ahead_s))} {which} this machine's"
        yield Check(f"store {name} clock", Status.WARN, words, "set the clock that is wrong")


def _space(name: str, folder: Path) -> Check:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < _LITTLE_SPACE:
        return Check(
            name, Status.WARN, f"{format_size(free)} free at {folder}", "free some space before the next run"
        )
    return Check(name, Status.OK, f"{format_size(free)} free at {folder}")


def _check_logins(session: Session) -> Iterator[Check]:
    """Whether connections to the machines of the target are kept open, for a target over SSH."""
    target = session.settings.target(session.target).name
    hosts = [machine.host for machine in machines_of(session, target)]
    if not hosts:
        return
    found = {host: find_login(session, host) for host in hosts}
    if any(found.values()):
        words = "; ".join(f"{host}: {_describe_login(login)}" for host, login in found.items())
    else:
        words = f"not open, and not needed where a key is enough; `gofer login {quote_word(target)}` opens it"
    yield Check("login", Status.OK, words)


def _describe_login(login: OpenConnection | None) -> str:
    if login is None:
        return "not open"
    if login.is_own:
        return "open, by your own `ssh`"
    return f"open until {format_local_time(login.until)}" if login.until else "open, and in use"


def _check_target(session: Session) -> Iterator[Check]:
    """Check the target that the next submission would use."""
    target = session.settings.target(session.target)
    backend = session.backend(target.name)
    words = f"{target.name} ({target.kind})"
    facts = backend.describe()
    if facts:
        told = [" ".join(fact(name, facts[name])) for name in _TOLD if name in facts]
        machines = text_of(facts["machines"]).splitlines() if "machines" in facts else []
        details = "; ".join([*([", ".join(told)] if told else []), *machines])
        words = f"{words}: {details}" if details else words
    yield Check("target", Status.OK, words)
    if silent := facts.get("silent"):
        hint = f"`gofer list nodes -t {target.name}`; remove machines that are gone from `hosts`"
        yield Check("target", Status.WARN, f"no answer from {text_of(silent).replace(chr(10), ', ')}", hint)


def check_programs(path: str) -> Iterator[Check]:
    """Check Python and the programs that gofer starts, on the PATH `path`."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", Status.OK, f"{version} at {sys.executable}")
    bash = shutil.which("bash", path=path)
    if bash:
        yield Check("bash", Status.OK, bash)
    else:
        yield Check("bash", Status.FAIL, "not on the PATH; set-up scripts run under it", "install bash")
    git = shutil.which("git", path=path)
    if git:
        yield Check("git", Status.OK, git)
    else:
        words = "not on the PATH; runs will not record their commit; everything else works"
        yield Check("git", Status.WARN, words, "install git")


def check_gpus() -> Iterator[Check]:
    """The GPUs that NVIDIA's driver shows."""
    nvml = open_driver()
    if nvml is None:
        yield Check("gpus", Status.OK, "no NVIDIA driver; a local target may still set `gpus:`")
        return
    try:
        count, driver = nvml.count(), nvml.driver()
    finally:
        nvml.close()
    if count:
        yield Check("gpus", Status.OK, f"{count} seen, driver {driver}")
    else:
        yield Check("gpus", Status.WARN, f"the driver {driver} shows none", "`nvidia-smi` may say why")


def check_endings() -> Iterator[Check]:
    """Check how reliably all processes of a run can be ended."""
    parent = cgroups.find_parent()
    if parent is not None:
        yield Check("ending runs", Status.OK, f"by cgroup, under {parent}")
    else:
        words = "no permission to make cgroups; by session, parent and run id instead"
        yield Check("ending runs", Status.OK, words)


def check_queue(queue_home: str) -> Iterator[Check]:
    """Check this machine's queue: whether a supervisor works it off, and whether ended runs left
    processes.
    """
    if not os.path.exists(os.path.join(queue_home, "queue.db")):
        yield Check("queue", Status.OK, "no runs yet on this machine")
        return
    queue = Queue(queue_home)
    try:
        count = sum(queue.counts().values())
        if wake.poke(queue_home):
            yield Check("queue", Status.OK, f"a supervisor works; unfinished runs: {count}")
        elif count:
            words = f"no supervisor works; unfinished runs: {count}"
            yield Check("queue", Status.WARN, words, "`gofer list runs` starts one")
        else:
            yield Check("queue", Status.OK, "idle; a supervisor starts when there is work")
        yield from _check_strays(queue)
    finally:
        queue.close()
    root = long_root(queue_home)
    if root is not None:
        words = f"the path of working copies in {root} is too long for Unix sockets in them"
        hint = "set `GOFER_HOME` or `GOFER_WORK_DIR` to a folder with a shorter path that only you can write"
        yield Check("working copies", Status.WARN, words, hint)


def _check_strays(queue: Queue) -> Iterator[Check]:
    """Warn about processes of runs that this queue has ended. Runs of other queues are not checked."""
    pids = dict(_processes_of_runs())
    seen = queue.observe({split_row(run_id)[0] for run_id in pids.values()})
    ended = {one.id for one in seen if one.state in list(FINAL_STATES)}
    strays = sorted(pid for pid, run_id in pids.items() if run_id in ended)
    if strays:
        listed = " ".join(map(str, strays[:10]))
        words = f"processes of ended runs that are still alive: {len(strays)}"
        yield Check("queue", Status.WARN, words, f"`kill {listed}`")


def _processes_of_runs() -> Iterator[tuple[int, str]]:
    """(pid, run id) of the processes of this user that a run started."""
    mark = b"GOFER_RUN_ID="
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue  # gone, or another user's
        for entry in entries:
            if entry.startswith(mark):
                yield int(name), os.fsdecode(entry[len(mark) :])
