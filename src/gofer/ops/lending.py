"""For how long gofer lends a run what opens its stores. Pure."""

from __future__ import annotations

from gofer.ops.lifetimes import QUEUE_S, RUN_S

# As long as Azure lends anything to who logged in; the time in the queue counts.
LONGEST_S = 7 * 86400.0


def lent_s(backend: str, limit_s: float | None, *, retries: int = 0) -> float:
    """As long as a run may wait and work, and never more than seven days.

    On Azure ML what is lent lies in the store beside the run's request, where others who may read the store
    can read it. So it is short there: two days for the queue, and for the work the time limit, two days
    without one, once for each attempt that the job allows. Elsewhere it lies in files of the person's own,
    and queues of one's own machines and Slurm's may be longer than anybody guesses: seven days.
    """
    if backend != "azureml":
        return LONGEST_S
    return min(QUEUE_S + (RUN_S if limit_s is None else limit_s) * (1 + retries), LONGEST_S)
