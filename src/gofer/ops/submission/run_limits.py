"""Read limits, umask, niceness and CPU affinity of the shell that submits a run to this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.core.command.process_limits import read_limits, too_low
from gofer.ops.messages import Hint, Warning

if TYPE_CHECKING:
    from gofer.ops.session import Session


def of_this_shell(session: Session) -> dict[str, Any]:
    """The limits for the run. Warns about limits that the running supervisor cannot provide."""
    wanted = read_limits()
    problems = too_low(wanted, _supervisor(session))
    if problems:
        session.emit(Warning(f"the queue was started with lower limits: {'; '.join(problems)}"))
        session.emit(
            Hint("the queue's supervisor ends by itself when no run is left; submit again after that")
        )
    return wanted


def _supervisor(session: Session) -> int:
    """The pid of the supervisor that works off the queue; 0 when there is none."""
    try:
        pid = int((session.paths.queue_home / "supervisor.lock").read_text() or 0)
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return 0
    return pid if (b"gofer.queue.program" in words or b"gofer.agent.supervise" in words) else 0
