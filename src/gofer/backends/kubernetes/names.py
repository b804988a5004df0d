"""The names of things in a cluster: objects, labels and annotations. Pure."""

from __future__ import annotations

import re

from gofer.backends.base import RunRef

MANAGED_BY = "app.kubernetes.io/managed-by"
GOFER = "gofer"
RUN_LABEL = "gofer.run/id"
USER_LABEL = "gofer.run/user"
TARGET_LABEL = "gofer.run/target"
PLAN_NOTE = "gofer.run/plan"
COMMAND_NOTE = "gofer.run/command"
STORE_NOTE = "gofer.run/store"
NODES_NOTE = "gofer.run/nodes"
# On a Job that a person asked to stop: the time. The deadline that stops it would look like a time limit.
STOP_NOTE = "gofer.run/stopped-at"

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
CONTAINER = "gofer"
OWN_JOBS = f"{MANAGED_BY}={GOFER}"

_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST_LABEL = 63


def jobs_path(namespace: str, name: str = "") -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" + (f"/{name}" if name else "")


def core_path(namespace: str, kind: str, name: str = "") -> str:
    """The path of a collection such as `pods` or `secrets`, or of an object in it."""
    return f"/api/v1/namespaces/{namespace}/{kind}" + (f"/{name}" if name else "")


def agent_name(mark: str) -> str:
    """The ConfigMap with the agent of that mark."""
    return f"gofer-agent-{mark}"


def job_name(run: RunRef) -> str:
    """The Job of a run; the rows of an array share one."""
    return run.group or run.id


def label_value(text: str) -> str:
    """The text as far as the value of a label may have it."""
    return _NOT_IN_LABEL.sub("-", text)[:_MOST_LABEL].strip("-_.")
