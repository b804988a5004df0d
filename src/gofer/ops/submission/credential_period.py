"""Compute how long the credentials that gofer gives a run are valid. Pure."""

from __future__ import annotations

from gofer.ops.submission.credential_lifetimes import LOGIN_S, QUEUE_S


def lent_s(limit_s: float | None, *, retries: int = 0, is_shown: bool = False) -> float:
    """The validity in seconds: two days for the wait, and the time limit for each attempt. Without a time
    limit it is seven days, the longest that Azure signs for a login.

    Credentials that other readers of the store can see (`is_shown`) are valid no longer than needed. Others
    are in private files of the person, and a run may wait long, so they are valid for at least seven days.
    """
    if limit_s is None:
        return LOGIN_S
    whole_s = QUEUE_S + limit_s * (1 + retries)
    return whole_s if is_shown else max(whole_s, LOGIN_S)
