"""Submits a run to Slurm exactly once. The run's id is in the job's name, by which a job is found again."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from contextlib import contextmanager
from typing import Iterator, Mapping, NoReturn

from gofer.core import files, node_request, private_folder
from gofer.core.node_request import NodeRequest
from gofer.core.sleep import pause
from gofer.node.slurm import calls, handoff
from gofer.node.slurm.calls import SlurmError, SlurmSilent
from gofer.node.slurm.handoff import Handoff, path_of
from gofer.node.slurm.job_name import job_name, split_row

# Pauses between searches for a job after a lost answer: a new job can take seconds to appear.
_LOOKS_S = (0.0, 0.5, 1.0, 1.5, 2.0)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class JobRejected(SlurmError):
    """Slurm will never accept this job as it is."""


def submit(folder: str, body: Mapping[str, object], script: str, private: bytes, timeout_s: float) -> str:
    """Submit the run's job once and return its number. Blocking; all callers get the same number. `body` is
    the request for the nodes, as gofer.core.node_request reads it.

    Raises JobRejected when Slurm refused the job, now or earlier. Raises SlurmSilent when Slurm does not
    answer and no job is found: the next call finds the job, or submits it if there is none.
    """
    request = node_request.decode(body)
    place = Handoff(path_of(folder, request.id))
    private_folder.make(os.path.dirname(place.path), owned=2)
    private_folder.make_missing(place.path)
    with _locked(place):
        known = place.read_text(handoff.JOB)
        if known:
            return known
        refused = place.read_text(handoff.REJECTED)
        if refused:
            raise JobRejected(refused)
        was_sent = place.has(handoff.SENDING)
        site = calls.site(folder, time.time())
        job = find(request, in_accounting=was_sent and site.has_accounting, is_patient=was_sent)
        if job is None:
            _check_rows(place, request, site)
            options = _dependency_options(place, request, folder)
            _write(place, {**body, "kill_wait_s": site.kill_wait_s}, script, private)
            job = _send(place, request, options, timeout_s, site)
        # The number first, then the end of the doubt: a crash between the two loses nothing.
        place.write(handoff.JOB, job.encode(), durable=True)
        place.remove(handoff.SENDING)
        return job


def _check_rows(place: Handoff, request: NodeRequest, site: calls.SlurmSite) -> None:
    rows = len(request.rows)
    if rows > site.most_rows:
        _reject(place, f"the array has {rows} rows, but this site accepts {site.most_rows} (MaxArraySize)")


def _write(place: Handoff, body: Mapping[str, object], script: str, private: bytes) -> None:
    store = body.get("store")
    if isinstance(store, str) and store:
        body = {**body, "store": os.path.expanduser(store)}
    place.write(handoff.SCRIPT, script.encode())
    place.write(handoff.REQUEST, files.encode(body))
    place.write(handoff.PRIVATE, private)


def _dependency_options(place: Handoff, request: NodeRequest, folder: str) -> list[str]:
    """The options of `sbatch` for a run that waits for others, after those of its batch script."""
    parts = [word.partition("=")[2] for word in request.sbatch or () if word.startswith("--dependency=")]
    for one in request.after:
        name, row = split_row(one["run"])
        job = Handoff(path_of(folder, name)).read_text(handoff.JOB)
        if job is None:
            _reject(place, f"after {one['run']}: this site does not have the run")
        number = job if row is None else f"{job}_{row}"
        parts.append(f"{'afterok' if one.get('ok', True) else 'afterany'}:{number}")
    # Without the second option, a job whose dependency failed would wait for ever.
    return [f"--dependency={','.join(parts)}", "--kill-on-invalid-dep=yes"] if request.after else []


def _send(
    place: Handoff, request: NodeRequest, options: list[str], timeout_s: float, site: calls.SlurmSite
) -> str:
    # Recorded before the job is sent: if this process dies, the next submitter searches for the job first.
    place.write(handoff.SENDING, str(time.time()).encode(), durable=True)
    try:
        return calls.sbatch(handoff.SCRIPT, place.path, timeout_s=timeout_s, options=options)
    except SlurmError as error:
        # A refusal is certain. Without an answer, the job may have been created.
        doubt = isinstance(error, SlurmSilent)
        job = find(request, in_accounting=doubt and site.has_accounting, is_patient=doubt)
        if job is None and not doubt:
            _reject(place, str(error))
        if job is None:
            raise
        return job


def _reject(place: Handoff, words: str) -> NoReturn:
    place.write(handoff.REJECTED, words.encode())
    # A refused run never starts, so its secrets must not stay on the site.
    place.remove(handoff.PRIVATE)
    place.remove(handoff.SENDING)
    raise JobRejected(words)


def find(request: NodeRequest, *, in_accounting: bool, is_patient: bool) -> str | None:
    """The number of the run's job, the oldest of several. SlurmError when Slurm cannot be asked."""
    # An older gofer names jobs by the id alone.
    named = f"--name={request.id},{job_name(request.id, request.name)}"
    for pause_s in _LOOKS_S if is_patient else _LOOKS_S[:1]:
        pause(pause_s)
        queue = ["squeue", f"--user={calls.user()}", named, "--states=all"]
        found = calls.call([*queue, "--noheader", "--format=%F"]).split()
        if not found and in_accounting:
            sacct = ["sacct", "--noheader", "--parsable2", "--allocations", named]
            text = calls.call([*sacct, "--starttime=now-30days", "--format=JobID"])
            found = [line.partition("_")[0] for line in text.split()]
        if found:
            return min(found, key=int)
    return None


@contextmanager
def _locked(place: Handoff) -> Iterator[None]:
    """Admit one submitter of a run at a time; on a file system without locks, one of this machine."""
    with open(place.at(handoff.LOCK), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            # In a folder of the user's own, where nobody else can put a link under the name of the file.
            locks = os.path.join(tempfile.gettempdir(), f"gofer-{os.getuid()}-locks")
            private_folder.make(locks)
            held = files.lock(os.path.join(locks, os.path.basename(place.path)), fcntl.LOCK_EX)
            try:
                yield
            finally:
                os.close(held)
            return
        yield
