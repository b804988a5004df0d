"""For how long gofer lends a run what opens its stores. Pure."""

from __future__ import annotations

from gofer.ops.submission.credential_lifetimes import LOGIN_S, QUEUE_S


def lent_s(backend: str, limit_s: float | None, *, retries: int = 0) -> float:
    """As long as a run may wait and work: two days for the queue, and its time limit for each attempt that it
    allows. One without a limit is lent seven days, as long as Azure lends anything to who logged in.

    On Azure ML what is lent lies in the store beside the run's request, where others who may read the store
    can read it, so it is no longer there than it must be. Elsewhere it lies in files of the person's own, and
    queues of one's own machines and Slurm's may be longer than anybody guesses: seven days at least.
    """
    if limit_s is None:
        return LOGIN_S
    whole_s = QUEUE_S + limit_s * (1 + retries)
    return whole_s if backend == "azureml" else max(whole_s, LOGIN_S)
