"""Choose the cause of a failed run among those that its reason and its last lines show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gofer.core.states import Reason, State
from gofer.node.failure_advice import NO_PACKAGES
from gofer.ops.causes import hardware, missing_files, programs, python
from gofer.ops.causes.cause import Cause, FailedRun
from gofer.text import quote_word

if TYPE_CHECKING:
    from collections.abc import Callable

# The most exact first.
_FINDERS: tuple[Callable[[FailedRun], Cause | None], ...] = (
    programs.find_windows_lines,
    hardware.find_full_memory,
    hardware.find_gpu_error,
    hardware.find_full_disk,
    missing_files.find_left_out,
    missing_files.find_only_here,
    python.find_missing_module,
    programs.find_forbidden_program,
    programs.find_missing_repository,
    programs.find_missing_program,
    python.find_exception,
)


def find_cause(run: FailedRun, signal: int | None = None) -> Cause | None:
    """The cause with what helps; None when nothing is known but the reason of the run.

    `signal` is the one that ended the rank that failed first. Reads the project as it is now.
    """
    if run.row.reason == Reason.TIME_LIMIT:
        return _time_limit(run)
    found = next((cause for find in _FINDERS if (cause := find(run)) is not None), None)
    if found is None and signal is not None:
        found = hardware.find_crash(run, signal)
    return found or _by_reason(run)


def _time_limit(run: FailedRun) -> Cause | None:
    limit_s = run.job.time_limit_s
    if limit_s is None:
        return None
    return Cause("", (run.with_job(msgspec.structs.replace(run.job, time_limit_s=2 * limit_s)),))


def _by_reason(run: FailedRun) -> Cause | None:
    """What helps against a failure outside of the command."""
    target = quote_word(run.row.target)
    if run.row.reason == Reason.REJECTED:
        node = run.session.settings.target_node(run.row.target)
        place = f" ({node.place.where})" if node is not None and node.place.line is not None else ""
        words = f"correct the target `{run.row.target}`{place}, or what the run asks for"
        return Cause(words, (f"gofer target show {target}", run.again))
    if run.row.reason == Reason.CREDENTIAL:
        return Cause("", (f"gofer doctor -t {target}", run.again))
    if run.row.reason == Reason.SETUP:
        # Without a script and packages, the cluster could not start the run: its detail names the option of
        # the target.
        is_of_job = bool(run.job.setup or NO_PACKAGES.search(run.row.detail or ""))
        return _set_up(run) if is_of_job else Cause("", (f"gofer target show {target}", run.again))
    if run.row.state == State.LOST or run.row.reason == Reason.NODE_FAILURE:
        words = "" if run.job.retries else "`--retries 1` starts such a run again by itself"
        return Cause(words, (run.again, f"gofer list nodes -t {target}"))
    return None


def _set_up(run: FailedRun) -> Cause:
    """`gofer resubmit` repeats the set-up as it was; a new submission reads the settings again."""
    if NO_PACKAGES.search(run.row.detail or ""):
        without = run.with_job(msgspec.structs.replace(run.job, packages="none"))
        return Cause("`--packages none` takes what the node has", (without, run.again))
    layers = run.session.settings.job_layers()
    place = next((layer.entries["setup"].place for layer in layers if "setup" in layer.entries), None)
    job = run.job if place is None else msgspec.structs.replace(run.job, setup=None)
    words = "correct `--setup` first" if place is None else f"correct `setup:` ({place.origin}) first"
    return Cause(words, (run.with_job(job),))
