"""Options of `sbatch` in every spelling, and what a batch script asks for."""

from __future__ import annotations

import pytest

from gofer.config.batch_script import BatchJob, find_option, parse_signal, read_batch_job
from gofer.config.jobs import JobFlags
from gofer.config.sbatch_options import (
    count_gpus,
    count_gres_gpus,
    has_directives,
    parse_array,
    parse_time_s,
    read_directives,
    split_options,
)
from gofer.errors import UsageError

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def script(*lines: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "", "echo hi", ""])


def job(*lines: str, kind: str = "slurm", has_array: bool = False, **flags: object) -> BatchJob:
    given = JobFlags(**flags)  # type: ignore[arg-type]
    return read_batch_job(
        read_directives(script(*lines)), given, kind=kind, on_slurm=kind == "slurm", has_array=has_array
    )


@pytest.mark.parametrize(
    "line", ["-N 2", "-N2", "--nodes=2", "--nodes 2", '--nodes="2"', "-N 2  # two", "-N\t2"]
)
def test_an_option_is_read_in_every_spelling(line: str) -> None:
    assert [(one.name, one.value, one.line) for one in read_directives(script(line))] == [("nodes", "2", 2)]


def test_several_options_stand_on_one_line_and_flags_have_no_value() -> None:
    found = read_directives(script("-N1 -n 4 --exclusive -H --requeue", "--comment='two words' --partit a,b"))
    assert [str(one) for one in found] == [
        *("--nodes=1", "--ntasks=4", "--exclusive", "--hold", "--requeue"),
        *("--comment=two words", "--partition=a,b"),
    ]
    assert {one.line for one in found} == {2, 3}


def test_directives_end_with_the_first_command_and_are_not_mere_comments() -> None:
    text = "#!/bin/bash\n\n# about\n#SBATCH -N 1\n##SBATCH -N 7\n#SBATCHED -N 8\n  # x\necho\n#SBATCH -n 9\n"
    assert [str(one) for one in read_directives(text)] == ["--nodes=1"]
    assert not has_directives("#!/bin/bash\necho\n#SBATCH -N 1\n")
    assert not has_directives("print('#SBATCH -N 1')\n")


@pytest.mark.parametrize("line", ["--nodes", "-N 1 stray", "--comment='open", "hetjob"])
def test_a_line_that_sbatch_could_not_read_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(UsageError, match="line 2"):
        read_directives(script(line))


def test_words_of_a_command_line_end_at_the_script() -> None:
    options, words = split_options(["-N", "2", "--wait", "--unknown", "x", "job.sh", "-N", "9"])
    assert [str(one) for one in options] == ["--nodes=2", "--wait", "--unknown=x"]
    assert words == ["job.sh", "-N", "9"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90", 90 * MINUTE),
        ("90:30", 90 * MINUTE + 30),
        ("1:30:15", HOUR + 30 * MINUTE + 15),
        ("2-12", 2 * DAY + 12 * HOUR),
        ("2-12:30", 2 * DAY + 12 * HOUR + 30 * MINUTE),
        ("2-12:30:15", 2 * DAY + 12 * HOUR + 30 * MINUTE + 15),
        ("0-1", HOUR),
        ("UNLIMITED", None),
        ("0", None),
    ],
)
def test_every_format_of_a_time_limit(text: str, wanted: float | None) -> None:
    assert parse_time_s(text) == wanted


@pytest.mark.parametrize("text", ["1h", "", "1:2:3:4", "-5"])
def test_a_time_that_slurm_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        parse_time_s(text)


@pytest.mark.parametrize(
    ("text", "ids", "at_once"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("1-10%2", tuple(range(1, 11)), 2),
        ("1,3,5-7", (1, 3, 5, 6, 7), None),
        ("0-20:5", (0, 5, 10, 15, 20), None),
        ("7", (7,), None),
    ],
)
def test_every_form_of_an_array(text: str, ids: tuple[int, ...], at_once: int | None) -> None:
    assert parse_array(text) == (ids, at_once)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-9%x", "1-9:0", "1-99999999"])
def test_an_array_that_slurm_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--array"):
        parse_array(text)


def test_gpus_are_counted_in_every_form() -> None:
    gres = ["gpu", "gpu:2", "gpu:a100", "gpu:a100:3", "gpu:a:1,gpu:b:2", "nvme:9", "nvme,gpu:2(S:0-1)"]
    assert [count_gres_gpus(text) for text in gres] == [1, 2, 1, 3, 3, 0, 2]
    assert [count_gpus(text) for text in ["4", "a100:4", "a100:1,v100:2"]] == [4, 4, 3]


@pytest.mark.parametrize(
    ("lines", "nodes", "gpus", "cpus"),
    [
        (["-N 2", "--gres=gpu:a100:2", "--ntasks-per-node=2 -c 4"], 2, 4, 8),
        (["--gpus=8", "-N2"], 2, 8, None),
        (["--gpus-per-node=4 --nodes=2-4"], 2, 8, None),
        (["--ntasks=8 --ntasks-per-node=4 --gpus-per-task=1 -c 2"], 2, 8, 8),
        (["--ntasks=3 --cpus-per-task=2"], 1, None, 6),
        (["--mem=4G"], None, None, None),
    ],
)
def test_resources_of_a_script(
    lines: list[str], nodes: int | None, gpus: int | None, cpus: int | None
) -> None:
    flags = job(*lines).flags
    assert (flags.nodes, flags.gpus, flags.cpus, flags.multi_process) == (nodes, gpus, cpus, False)


def test_flags_win_over_the_script() -> None:
    lines = ["-N 2 --gres=gpu:2 -c 4 -t 30 -J theirs --export=ALL,A=1,B=2 --array=1-3"]
    read = job(
        *lines, has_array=True, nodes=1, gpus=1, cpus=2, time_limit_s=90.0, name="mine", env={"A": "9"}
    )
    flags = read.flags
    assert (flags.nodes, flags.gpus, flags.cpus, flags.time_limit_s, flags.name) == (1, 1, 2, 90.0, "mine")
    assert (flags.env, read.tasks) == ({"A": "9", "B": "2"}, None)
    assert read.sbatch == ("--cpus-per-task=2",)
    assert [note for note in read.notes if "--array" in note]


def test_on_slurm_all_else_goes_to_sbatch_and_the_rest_is_named() -> None:
    read = job(
        "--partition=gpu --qos urgent -A me --mail-type=END --dependency=afterok:1 --exclusive --spank=x",
        "-o out.%j --error=err.%j -D /tmp --wait",
    )
    assert read.sbatch == (
        *("--partition=gpu", "--qos=urgent", "--account=me", "--mail-type=END"),
        *("--dependency=afterok:1", "--exclusive", "--spank=x"),
    )
    assert [note.split("`")[1] for note in read.notes] == [
        *("--output=out.%j", "--error=err.%j", "--chdir=/tmp", "--wait")
    ]
    assert all(note.startswith("line 3: ") for note in read.notes)


def test_on_other_kinds_each_option_that_is_not_followed_is_named() -> None:
    read = job("-N1 --gres=gpu:1,nvme:1 -t 5 --mem=4G -p gpu --array=1-4%2 --signal=B:USR1@60", kind="local")
    named = [note.split("`")[1] for note in read.notes]
    assert named == [
        "--array=…%2",
        "--gres=gpu:1,nvme:1",
        "--mem=4G",
        "--partition=gpu",
        "--signal=B:USR1@60",
    ]
    assert (read.flags.gpus, read.flags.time_limit_s) == (1, 300.0)


def test_variables_of_the_whole_array() -> None:
    read = job("--array=4-10:3")
    assert read.tasks is not None and read.tasks.ids == (4, 7, 10)
    facts = {"COUNT": "3", "MIN": "4", "MAX": "10", "STEP": "3"}
    assert read.flags.env == {f"SLURM_ARRAY_TASK_{name}": value for name, value in facts.items()}


def test_signals() -> None:
    assert parse_signal("B:SIGUSR1@120") == (True, "USR1", 120)
    assert parse_signal("USR2") == (False, "USR2", 60)
    assert find_option(job("-t 10 --signal=B:TERM@30").sbatch, "signal") == "B:TERM@30"
    assert find_option(job("-t 10 --signal=USR1@30").sbatch, "signal") == "USR1@30"
    for line in ("-t 10 --signal=TERM@30", "--signal=B:USR1@30"):
        read = job(line)
        assert find_option(read.sbatch, "signal") is None
        assert [note for note in read.notes if "--signal" in note]


@pytest.mark.parametrize("number", ["²", "\u0661", "9" * 5000, "-1", "0x1"])
@pytest.mark.parametrize(
    "option", ["--ntasks=", "--nodes=", "--nodes=1-", "--cpus-per-task=", "--signal=B:USR1@", "--time=1-"]
)
def test_a_number_that_is_none_is_refused_in_words(option: str, number: str) -> None:
    with pytest.raises(UsageError):
        job(f"{option}{number}")


@pytest.mark.parametrize("text", ["1-²", "1%²", "9" * 5000, f"1%{'9' * 5000}", "0-4000000," * 3 + "1"])
def test_an_array_that_no_cluster_has_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match="--array="):
        parse_array(text)


def test_gpus_whose_number_cannot_be_read_count_as_one() -> None:
    assert [count_gpus(text) for text in ("²", "a100:²", "9" * 5000)] == [1, 1, 1]
