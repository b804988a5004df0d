"""The cause that the last lines of a run show, and the first command against it."""

from __future__ import annotations

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import failure, make_record

from gofer.model.job import Resources
from gofer.model.run import CodeOrigin, RunRecord
from gofer.ops.runs.why import Why, why

COMMAND = ("python", "train.py", "--batch-size", "64")


def explain(project: OpsProject, tail: str, *, reason: str = "exit-code", **job: object) -> Why:
    """What `gofer why` answers for a run of the project that ended with these lines."""
    facts = {"command": COMMAND, **job}
    signal = facts.pop("signal", None)
    record: RunRecord = make_record(job=facts, code=CodeOrigin(folder=str(project.folder)))
    folder = project.run_folder(record.id)
    first = failure(0, 1.0, tail=tail.splitlines(), signal=signal, exit_code=None if signal else 1)
    folder.exit("failed", reason=reason, exit_code=1, first_failure=first)
    gpus = record.job.resources.gpus
    return why(project.session, project.add(record, state="failed", reason=reason, exit_code=1, gpus=gpus))


ONE_GPU = Resources(gpus=1)
PLAIN = "gofer submit -t local"


@pytest.mark.parametrize(
    ("tail", "words", "step"),
    [
        (
            "RuntimeError: CUDA error: device-side assert triggered",
            "the traceback names the line",
            f"{PLAIN} -n 1 -e CUDA_LAUNCH_BLOCKING=1",
        ),
        (
            "AssertionError: Torch not compiled with CUDA enabled",
            "built without support for this GPU",
            f"{PLAIN} -n 1 python -c 'import torch; ",
        ),
        (
            "RuntimeError: CUDA error: invalid device ordinal",
            "the run has 1 GPU, numbered from 0",
            f"{PLAIN} -n 2",
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1",
            "NCCL_DEBUG=INFO shows",
            f"{PLAIN} -n 1 -e NCCL_DEBUG=INFO",
        ),
        (
            "RuntimeError: No CUDA GPUs are available",
            "the run has GPUs, and CUDA does not find them",
            "nvidia-smi",
        ),
        (
            "OSError: [Errno 28] No space left on device: 'ck/1.pt'",
            "a disk of the node is full",
            "gofer prune --dry-run -t local",
        ),
        (
            "RuntimeError: DataLoader worker is killed by signal. insufficient shared memory (shm)",
            "use fewer workers that load data",
            "gofer resubmit k9qd4x",
        ),
    ],
)
def test_gpus_and_disks(project: OpsProject, tail: str, words: str, step: str) -> None:
    found = explain(project, tail, resources=ONE_GPU)
    assert words in (found.words or "")
    assert step in found.next[0]
    assert found.next[-1] == "gofer logs k9qd4x"


def test_a_run_without_gpus_is_told_of_other_targets(project: OpsProject) -> None:
    found = explain(project, "RuntimeError: Found no NVIDIA driver on your system")
    assert found.words == (
        "exited with 1; the run has no GPU, and `local` has none: choose a target with GPUs by `-t`"
    )
    assert found.next[:2] == ("gofer list targets", "gofer list nodes -t local")


def test_memory_that_was_asked_for_is_doubled_and_the_batch_halved(project: OpsProject) -> None:
    found = explain(project, "Killed", reason="out-of-memory", resources=Resources(memory="1500MiB"))
    assert "--memory 3GiB" in found.next[0] and found.next[0].endswith("--batch-size 64")
    assert found.next[1].endswith("python train.py --batch-size 32")


def test_a_full_gpu_asks_for_a_smaller_batch(project: OpsProject) -> None:
    command = ("python", "train.py", "--train.batch_size=8")
    tail = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    found = explain(project, tail, reason="out-of-memory", command=command)
    assert "the memory of the GPU is full" in (found.words or "")
    assert found.next[0].endswith("python train.py --train.batch_size=4")
    assert found.next[1] == "gofer list nodes -t local"


def test_a_crash_shows_the_line_of_python(project: OpsProject) -> None:
    found = explain(project, "", reason="signal", signal=11)
    advice = "it crashed in native code: PYTHONFAULTHANDLER=1 shows the line of Python"
    assert found.words == f"killed by signal 11 (SIGSEGV); {advice}"
    assert "-e PYTHONFAULTHANDLER=1 python train.py" in found.next[0]


@pytest.mark.parametrize(
    ("list_name", "text", "line"),
    [
        ("", "", "echo opencv-python >> requirements.txt && gofer submit -t local --packages auto"),
        ("requirements.txt", "numpy\n", "echo opencv-python >> requirements.txt && gofer submit"),
        ("requirements.txt", "opencv-python==4.9\n", "gofer submit -t local --packages auto"),
        (
            "pyproject.toml",
            "[project]\nname = 'x'\nversion = '1'\ndependencies = ['numpy']\n",
            "uv add --project . opencv-python && gofer submit -t local --packages auto",
        ),
    ],
)
def test_a_missing_module_comes_from_the_list_of_packages(
    project: OpsProject, list_name: str, text: str, line: str
) -> None:
    if list_name:
        (project.folder / list_name).write_text(text)
    found = explain(project, "ModuleNotFoundError: No module named 'cv2'")
    assert found.next[0].startswith(line)


def test_the_environment_of_the_project_has_the_module(project: OpsProject) -> None:
    (project.folder / ".venv/lib/python3.12/site-packages/tqdm").mkdir(parents=True)
    found = explain(project, "ModuleNotFoundError: No module named 'tqdm'")
    assert "`.venv` has `tqdm`, and the command ran another Python" in (found.words or "")
    assert found.next[0].endswith(" .venv/bin/python train.py --batch-size 64")


@pytest.mark.parametrize(
    ("reason", "steps"),
    [
        ("credential", ("gofer doctor -t local", "gofer resubmit k9qd4x")),
        ("node-failure", ("gofer resubmit k9qd4x", "gofer list nodes -t local")),
    ],
)
def test_failures_outside_of_the_command(project: OpsProject, reason: str, steps: tuple[str, ...]) -> None:
    record = make_record()
    assert why(project.session, project.add(record, state="failed", reason=reason)).next == steps


@pytest.mark.parametrize("tail", ["ls: pythn: something", "done: 3 files", "KeyError: 'a'", "404: not found"])
def test_words_that_only_look_like_an_error_name_no_cause(project: OpsProject, tail: str) -> None:
    assert explain(project, tail).next == ("gofer logs k9qd4x", "gofer resubmit k9qd4x")


def test_a_rejected_run_names_the_line_of_its_target(project: OpsProject) -> None:
    (project.folder / "gofer.yaml").write_text("targets:\n  lab: {kind: local}\n")
    row = project.add(make_record(target="lab"), state="failed", reason="rejected", detail="no partition")
    session = project.open()
    found = why(session, row)
    assert found.words is not None and found.words.startswith(
        "rejected: no partition; correct the target `lab` ("
    )
    assert "gofer.yaml:2), or what the run asks for" in found.words
    assert found.next == ("gofer target show lab", "gofer resubmit k9qd4x")


def test_a_file_that_only_this_machine_has(project: OpsProject) -> None:
    (project.folder / "gofer.yaml").write_text("targets:\n  far: {kind: ssh, hosts: [box]}\n")
    data = project.root / "data set"
    data.mkdir()
    for path, is_named in ((data / "a", False), (data, True)):
        record = make_record(f"r261116-09123{int(is_named)}-k9qd4x", target="far", backend="ssh")
        tail = [f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"]
        first = failure(0, 1.0, tail=tail)
        project.run_folder(record.id).exit("failed", reason="exit-code", exit_code=1, first_failure=first)
        row = project.add(record, state="failed", reason="exit-code", exit_code=1)
        words = why(project.open(), row).words or ""
        assert (f"`{path}` is on this machine and not on the node; `folders:` in" in words) == is_named


def test_a_mistyped_program_of_another_machine(project: OpsProject) -> None:
    """`nvidia-smi` need not be on this machine."""
    record = make_record(target="far", backend="slurm", job={"command": ("sh", "-c", "nvidiasmi -L")})
    first = failure(0, 1.0, tail=["sh: 1: nvidiasmi: not found"], exit_code=127)
    project.run_folder(record.id).exit("failed", reason="exit-code", exit_code=127, first_failure=first)
    found = why(project.session, project.add(record, state="failed", reason="exit-code", exit_code=127))
    assert found.words == "exited with 127; there is no program `nvidiasmi`; did you mean `nvidia-smi`?"
    assert found.next[0].endswith(" sh -c 'nvidia-smi -L'")


def test_packages_that_cannot_be_installed_can_be_left_out(project: OpsProject) -> None:
    record: RunRecord = make_record(job={"command": ("python", "x.py"), "packages": "auto"})
    detail = "the packages of pyproject.toml could not be installed: python failed"
    row = project.add(record, state="failed", reason="set-up", detail=detail)
    found = why(project.session, row)
    assert found.words is not None and "`--setup`" not in found.words
    assert "`--packages none` takes what the node has" in found.words
    assert found.next[0] == "gofer submit -t local --packages none python x.py"
