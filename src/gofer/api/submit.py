"""`gofer.submit`: run a command on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from gofer.api.job_options import JobOptions, Word, command_words, to_flags, with_options
from gofer.api.project import FolderPath, OpenProject
from gofer.api.run import Run
from gofer.ops.submission.submit import SubmitRequest
from gofer.ops.submission.submit import submit as submit_run


@with_options
def submit(
    command: Sequence[Word],
    *,
    target: str | None = None,
    folder: FolderPath | None = None,
    each: Mapping[str, Sequence[object]] | None = None,
    code: bool | str = True,
    after: Run | str | Sequence[Run | str] = (),
    **job: Unpack[JobOptions],
) -> Run:
    """Run `command` on a target with the code of `folder` (default: the current one), and return at once.

    `each` makes an array: every combination of its values, `{name}` replaced in the command; the Run is then
    the group. `code` is False for no code, or `"STORE:PATH"` for code that lies in a store. The run starts
    when the runs `after` have succeeded; `"ID:any"` is for a run that has to end in any way. `job` are the
    options of the job, see JobOptions. UsageError for a command that is one text.
    """
    with OpenProject(folder) as session:
        request = SubmitRequest(
            flags=to_flags(job),
            command=command_words(command),
            target=target,
            columns={name: tuple(map(str, values)) for name, values in (each or {}).items()},
            code=code is not False,
            stored_code=code if isinstance(code, str) else None,
            after=_references(after),
        )
        return Run(submit_run(session, request).id, folder=folder)


def _references(runs: Run | str | Sequence[Run | str]) -> tuple[str, ...]:
    several = [runs] if isinstance(runs, (Run, str)) else runs
    return tuple(one.id if isinstance(one, Run) else one for one in several)
