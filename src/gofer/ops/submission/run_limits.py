"""Limits, umask, niceness and CPU affinity of the shell that submits a run to this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.core.process_limits import read_limits, too_low

if TYPE_CHECKING:
    from gofer.ops.session import Session


def of_this_shell(session: Session) -> dict[str, Any]:
    """What the run is to have, with a line about what the queue that is running now cannot give it."""
    wanted = read_limits()
    problems = too_low(wanted, _supervisor(session))
    if problems:
        session.say(f"warning: the queue was started with lower limits: {'; '.join(problems)}")
        session.say("hint: a queue without runs ends by itself; submit again then")
    return wanted


def _supervisor(session: Session) -> int:
    """The pid of the supervisor that works off the queue; 0 when there is none."""
    try:
        pid = int((session.paths.engine_dir / "supervisor.lock").read_text() or 0)
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return 0
    return pid if (b"gofer.queue.program" in words or b"gofer.agent.supervise" in words) else 0
