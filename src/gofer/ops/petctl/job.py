"""`petctl run_job`: submit the training job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.ops.messages import Message
from gofer.ops.petctl.cluster import image_of, place_of, write_target
from gofer.ops.petctl.project import TARGET, PetProject
from gofer.ops.submission.submit import SubmitRequest, submit

if TYPE_CHECKING:
    from gofer.importers.petctl import PetJob
    from gofer.tracking.ledger import RunRow


def run_job(project: PetProject) -> RunRow:
    """Submit the job that `configure` wrote, on as many nodes as its least size. Blocking.

    UsageError when `setup` or `storage_secret` has not been typed.
    """
    place_of(project)
    state = project.files.state()
    if state.cluster is None or not state.account:
        raise UsageError(
            "no storage account is known, and runs are kept there",
            hint="`python petctl.py storage_secret --account_name … --account_key …`",
        )
    job = project.files.job()
    image = image_of(project)
    if not job.image:
        project.session.emit(Message(f"the image is `{image}`, with which `config/Dockerfile` begins"))
    write_target(project)
    env = {"JOB_ID": job.name, **_sizes(job)}
    request = SubmitRequest(
        flags=JobFlags(name=job.name, gpus=job.min_size * state.cluster.gpus, env=env),
        command=("bash", "-c", job.command),
        target=TARGET,
    )
    row = submit(project.session, request)
    project.remember(run=row.id)
    return row


def run_of(project: PetProject) -> str:
    """The id of the run that `run_job` submitted last; UsageError when there is none."""
    found = project.files.state().run
    if not found:
        raise UsageError("no job was started yet", hint="`python petctl.py run_job` starts it")
    return found


def _sizes(job: PetJob) -> dict[str, str]:
    return {"MIN_SIZE": str(job.min_size), "MAX_SIZE": str(job.max_size)}
