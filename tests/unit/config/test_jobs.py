"""One Job out of seven layers, and job files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import msgspec
import pytest
from unit.config.project import ConfigProject

from gofer.config.arrays import Axes, Grid
from gofer.config.jobs import JobFile, JobFlags, build_job, job_values, read_job_file
from gofer.core.states import RETRIED_BY_DEFAULT, Reason
from gofer.errors import ConfigError, UsageError
from gofer.model.job import Job, Resources
from gofer.model.layout import lay_out


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def job_file(path: Path, text: str) -> JobFile:
    path.write_text(dedent(text))
    return read_job_file(path)


def build(project: ConfigProject, flags: JobFlags | None = None, **variables: str) -> Job:
    return build_job(["x"], flags or JobFlags(), None, project.load(**variables), "local")


def test_nothing_set_is_the_model_s_own_default(project: ConfigProject) -> None:
    assert build(project) == Job(command=("x",))


def test_every_field_can_be_set_by_flags(project: ConfigProject) -> None:
    flags = JobFlags(
        name="a name",
        gpus=8,
        nodes=2,
        procs=4,
        cpus=3,
        env={"A": "1"},
        tags={"t": ""},
        setup="pip install .",
        time_limit_s=90.5,
        grace_s=0.0,
        retries=2,
        retry_on=("signal",),
        priority=-5,
        multi_process=False,
        launcher="torchrun",
    )
    assert build(project, flags) == Job(
        command=("x",),
        name="a name",
        resources=Resources(gpus=8, nodes=2, procs=4, cpus=3),
        multi_process=False,
        env={"A": "1"},
        setup="pip install .",
        time_limit_s=90.5,
        grace_s=0.0,
        retries=2,
        retry_on=(Reason.SIGNAL,),
        priority=-5,
        tags={"t": ""},
        launcher="torchrun",
    )


def test_every_field_can_be_set_in_a_file(project: ConfigProject) -> None:
    project.configure("""
        job:
          name: no
          gpus: 8
          nodes: 2
          procs: 4
          cpus: 3
          env: {A: 0, B: 0.10, C: no, D: "", E: 2026-01-01}
          setup: |
            echo ${HOME}
            echo ${env:X}
          time_limit: 01:30:00
          grace: 1m
          retries: 2
          retry_on: [out-of-memory, time-limit]
          priority: -5
          tags: {lr: 0.10, on: on}
          multi_process: off
          launcher: mpi
        """)
    assert build(project) == Job(
        command=("x",),
        name="no",
        resources=Resources(gpus=8, nodes=2, procs=4, cpus=3),
        multi_process=False,
        env={"A": "0", "B": "0.10", "C": "no", "D": "", "E": "2026-01-01"},
        setup="echo ${HOME}\necho ${env:X}\n",
        time_limit_s=5400.0,
        grace_s=60.0,
        retries=2,
        retry_on=(Reason.OUT_OF_MEMORY, Reason.TIME_LIMIT),
        priority=-5,
        tags={"lr": "0.10", "on": "on"},
        launcher="mpi",
    )


def test_every_single_value_can_be_set_by_a_variable(project: ConfigProject) -> None:
    variables = {
        "GOFER_NAME": "n",
        "GOFER_GPUS": "8",
        "GOFER_NODES": "2",
        "GOFER_PROCS": "4",
        "GOFER_CPUS": "3",
        "GOFER_SETUP": "true",
        "GOFER_TIME_LIMIT": "2h",
        "GOFER_GRACE": "5",
        "GOFER_RETRIES": "2",
        "GOFER_RETRY_ON": "signal, exit-code",
        "GOFER_PRIORITY": "7",
        "GOFER_MULTI_PROCESS": "0",
        "GOFER_LAUNCHER": "mpi",
        "GOFER_TAGS": "told=the run",
    }
    assert build(project, None, **variables) == Job(
        command=("x",),
        name="n",
        resources=Resources(gpus=8, nodes=2, procs=4, cpus=3),
        multi_process=False,
        setup="true",
        time_limit_s=7200.0,
        grace_s=5.0,
        retries=2,
        retry_on=(Reason.SIGNAL, Reason.EXIT_CODE),
        priority=7,
        launcher="mpi",
    )


def test_the_nearest_layer_wins_each_in_turn(project: ConfigProject, path: Path) -> None:
    """Layers are taken away from the nearest on; each time the next one speaks."""
    seen = []

    def note(flags: JobFlags | None = None, file: JobFile | None = None, **variables: str) -> None:
        settings = project.load(**variables)
        gpus = job_values(flags or JobFlags(), file, settings, "local")["gpus"]
        seen.append((gpus.value, gpus.origin))

    project.configure_user("job: {gpus: 2}")
    project.configure("\njob: {gpus: 3}\ntargets: {local: {job: {gpus: 4}}}")
    file = job_file(path, "\n\ngpus: 5")
    note(JobFlags(gpus=7), file, GOFER_GPUS="6")
    note(None, file, GOFER_GPUS="6")
    note(None, file)
    note()
    project.configure("\njob: {gpus: 3}")
    note()
    project.configure("")
    note()
    project.configure_user("")
    note()
    assert seen == [
        (7, "flag --gpus"),
        (6, "env GOFER_GPUS"),
        (5, "job.yaml:3"),
        (4, "gofer.yaml:3"),
        (3, "gofer.yaml:2"),
        (2, "config.yaml:1"),
        (0, "built-in"),
    ]


def test_maps_join_over_all_layers_and_nothing_removes_a_name(project: ConfigProject, path: Path) -> None:
    project.configure_user("job: {env: {A: user, B: user, C: user, GONE: user}, tags: {t: user}}")
    project.configure("job: {env: {B: project, GONE: null}}\ntargets: {local: {job: {env: {T: target}}}}")
    file = job_file(path, "env: {C: file}")
    settings = project.load()
    flags = JobFlags(env={"D": "flag"}, tags={"u": "flag"})
    assert build_job(["x"], flags, file, settings, "local").env == {
        "A": "user",
        "B": "project",
        "C": "file",
        "T": "target",
        "D": "flag",
    }
    values = job_values(flags, file, settings, "local")
    assert values["env"].origin == "config.yaml:1, gofer.yaml:1, job.yaml:1, gofer.yaml:2, flag -e"
    assert values["tags"].value == {"t": "user", "u": "flag"}


def test_null_puts_the_built_in_value_back(project: ConfigProject) -> None:
    project.configure_user("job: {time_limit: 1h, gpus: 4, retry_on: [signal], env: {A: b}}")
    project.configure("job: {time_limit: null, gpus: ~, retry_on: , env: }")
    job = build(project)
    assert (job.time_limit_s, job.resources.gpus, job.retry_on, job.env) == (None, 0, RETRIED_BY_DEFAULT, {})


@pytest.mark.parametrize(
    ("text", "flags", "procs"),
    [
        ("job: {procs: 3, multi_process: false}", JobFlags(), 1),
        ("job: {procs: 3}", JobFlags(multi_process=False), 1),
        ("job: {multi_process: false}", JobFlags(procs=3), 3),
        ("job: {multi_process: true}", JobFlags(procs=3), 3),
        ("job: {procs: 3}", JobFlags(), 3),
    ],
)
def test_the_nearer_of_two_words_for_processes_counts(
    project: ConfigProject, text: str, flags: JobFlags, procs: int
) -> None:
    project.configure(text)
    assert lay_out(build(project, flags), gpus_per_node=0, target="here").procs_per_node == procs


def test_references_in_env_stay_references(project: ConfigProject) -> None:
    project.configure("job: {env: {KEY: '${secret:absent}', N: '${env:ABSENT}'}}")
    assert build(project).env == {"KEY": "${secret:absent}", "N": "${env:ABSENT}"}


def test_references_elsewhere_in_a_job_are_looked_up(project: ConfigProject) -> None:
    project.configure("job: {gpus: '${env:N:-2}', time_limit: '${env:T}', launcher: '${env:L:-mpi}'}")
    job = build(project, N="4", T="1h")
    assert (job.resources.gpus, job.time_limit_s, job.launcher) == (4, 3600.0, "mpi")
    with pytest.raises(ConfigError, match=r"gofer\.yaml:1: `time_limit`: .*`T` is not set"):
        build(project)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (JobFlags(gpus=-1), "flag --gpus: `gpus` must be at least 0, not `-1`"),
        (JobFlags(nodes=0), "flag --nodes: `nodes` must be at least 1, not `0`"),
        (JobFlags(procs=0), "flag --procs: `procs` must be at least 1, not `0`"),
        (JobFlags(cpus=0), "flag --cpus: `cpus` must be at least 1, not `0`"),
        (JobFlags(retries=101), "flag --retries: `retries` must be at most 100, not `101`"),
        (JobFlags(priority=1001), "flag --priority: `priority` must be at most 1000, not `1001`"),
        (JobFlags(time_limit_s=0.0), "flag --time-limit: `time_limit` must be more than 0, not `0.0`"),
        (JobFlags(time_limit_s=-1.0), "flag --time-limit: `time_limit`"),
        (JobFlags(time_limit_s=float("inf")), "flag --time-limit: `time_limit`"),
        (JobFlags(grace_s=float("nan")), "flag --grace: `grace`"),
        (JobFlags(env={"A=B": "c"}), "flag -e: `A=B` cannot be a name in `env`"),
        (JobFlags(env={"A\n": "c"}), r"flag -e: `A\n` cannot be a name in `env`"),
        (JobFlags(env={"A": "x\0y"}), "flag -e: `env` holds a NUL character"),
        (JobFlags(env={"A": "${secret:}"}), "flag -e: `env.A`: `${secret:}` is not a whole reference"),
        (JobFlags(tags={"": "c"}), "flag --tag: `` cannot be a name in `tags`"),
        (JobFlags(tags={"a": "\udcff"}), "flag --tag: `tags` is not UTF-8 text"),
        (JobFlags(name=""), "flag --name: `name` must not be empty"),
        (JobFlags(name="a\x1b[2J"), "flag --name: `name` must be one printable line"),
        (JobFlags(name="x" * 201), "flag --name: `name` must be at most 200 characters long"),
        (JobFlags(launcher="spwan"), "flag --launcher: `launcher` must be one of"),
        (JobFlags(retry_on=("signals",)), "flag --retry-on: `retry_on[0]` must be one of"),
    ],
)
def test_wrong_flags_are_refused_in_the_words_of_files(
    project: ConfigProject, flags: JobFlags, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(project, flags)
    assert caught.value.message.startswith(message)
    assert caught.value.message.isprintable()


def test_wrong_variables_are_refused(project: ConfigProject) -> None:
    with pytest.raises(ConfigError, match="env GOFER_GPUS: `gpus` must be a whole number, not `many`"):
        build(project, GOFER_GPUS="many")


def test_words_like_null_are_text_when_a_flag_says_them(project: ConfigProject) -> None:
    job = build(project, JobFlags(name="null", env={"A": "", "B": "~"}))
    assert (job.name, job.env) == ("null", {"A": "", "B": "~"})


# -- the command


def test_the_command_is_kept_word_for_word(project: ConfigProject) -> None:
    command = ["sh", "-c", 'echo "$RANK a  b" ${env:X}', "", "né\nw"]
    assert build_job(command, JobFlags(), None, project.load(), "local").command == tuple(command)


def test_the_command_line_replaces_the_command_of_the_file(project: ConfigProject, path: Path) -> None:
    file = job_file(path, "command: [python, train.py]\ngpus: 1")
    job = build_job([], JobFlags(), file, project.load(), "local")
    assert (job.command, job.resources.gpus) == (("python", "train.py"), 1)
    job = build_job(["python", "eval.py"], JobFlags(), file, project.load(), "local")
    assert (job.command, job.resources.gpus) == (("python", "eval.py"), 1)


@pytest.mark.parametrize("command", [[], [""], ["a", "\udcff"], ["a", "b\0"]])
def test_no_command_or_one_that_cannot_be_run_is_refused(project: ConfigProject, command: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        build_job(command, JobFlags(), None, project.load(), "local")
    assert caught.value.message.isprintable()
    assert caught.value.exit_status == 2


def test_a_built_job_survives_its_record(project: ConfigProject) -> None:
    job = build(project, JobFlags(env={"A": "ä${secret:x}"}, retry_on=("signal",)))
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job


# -- job files


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("command: [python, 1, no, 'a b']", ("python", "1", "no", "a b")),
        ("command: python train.py --name 'a b' ${HOME}", ("python", "train.py", "--name", "a b", "${HOME}")),
        ("command: echo 'a | b' \"&&\" 'x;'", ("echo", "a | b", "&&", "x;")),
        (
            "script: |\n  cd x\n  echo ${env:A} | cat",
            ("bash", "-euo", "pipefail", "-c", "cd x\necho ${env:A} | cat"),
        ),
        ("gpus: 1", None),
    ],
)
def test_commands_and_scripts(path: Path, text: str, argv: tuple[str, ...] | None) -> None:
    assert job_file(path, text).argv == argv


def test_arrays_in_a_job_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x\n1\n")
    file = job_file(path, "target: lab\neach: {lr: [0.10, no], seed: 1..3, s: 'a, b'}\narray: rows.csv")
    assert file.target == "lab"
    assert file.axes == Axes(
        {"lr": ("0.10", "no"), "seed": ("1", "2", "3"), "s": ("a", "b")}, Grid(("x",), (("1",),))
    )
    listed = job_file(path, "array:\n  - {a: 1, b: x}\n  - {b: y, a: 0.20}")
    assert listed.axes == Axes({}, Grid(("a", "b"), (("1", "x"), ("0.20", "y"))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpuss: 1", "job.yaml:1: unknown key `gpuss`"),
        ("gpus: 1\nretries: 101", "job.yaml:2: `retries` must be at most 100"),
        ("command: a\nscript: b", "job.yaml:2: a job has `command` or `script`, not both"),
        ("command: []", "job.yaml:1: `command` is empty"),
        ("command: ''", "job.yaml:1: `command` is empty"),
        ("command: {a: b}", "job.yaml:1: `command` must be a list or text, not a map"),
        ('command: "echo \'a"', "job.yaml:1: `command` cannot be split into words"),
        ("command: a && b", "job.yaml:1: `command` is one command and no shell reads it, so `&&`"),
        ("command: cd x; python y", "so `x;` would be an argument"),
        ("command: a > b", "so `>` would be an argument"),
        ("script: ''", "job.yaml:1: `script` must not be empty"),
        ("each: {lr: }", "job.yaml:1: `each.lr` must be a list or text, not nothing"),
        ("each: {a-b: [1], a_b: [2]}", "job.yaml:1: `each`: `a-b` and `a_b` are both `GOFER_ARG_A_B`"),
        ("each: {lr: '1,,2'}", "job.yaml:1: `each`: an empty value"),
        ("array: absent.csv", "job.yaml:1: `array`: cannot read the array"),
        ("array:\n- {a: 1}\n- {b: 1}", "job.yaml:1: `array`: row 2 of the array and the first row differ"),
        ("array:\n- 1", "job.yaml:2: `array[0]` must be a map, not `1`"),
    ],
)
def test_wrong_job_files_are_refused(path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        job_file(path, text)
    assert message in caught.value.message.replace(f"{path.parent}/", "")
    assert "\n" not in caught.value.message


def test_an_absent_job_file_is_named(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read `.*job\.yaml`: No such file"):
        read_job_file(path)


def test_outputs_that_are_sent_while_a_run_runs_are_some_or_none_or_the_targets_to_say(
    project: ConfigProject,
) -> None:
    """`sync` has three values: patterns, none, and not set."""
    assert build(project, JobFlags()).sync is None
    assert build(project, JobFlags(sync=())).sync == ()
    project.configure("job: {sync: ['*.ckpt']}")
    assert build(project, JobFlags()).sync == ("*.ckpt",)
    assert build(project, JobFlags(sync=())).sync == ()
    project.configure("job: {sync: ['*.ckpt']}\ntargets: {local: {job: {sync: []}}}")
    assert build(project, JobFlags()).sync == ()
    project.configure("job: {sync: ['*.ckpt']}\ntargets: {local: {job: {sync: null}}}")
    assert build(project, JobFlags()).sync is None
    none = msgspec.json.encode(Job(command=("x",), sync=()))
    assert msgspec.json.decode(none, type=Job).sync == ()
    unset = msgspec.json.encode(Job(command=("x",)))
    assert b"sync" not in unset and msgspec.json.decode(unset, type=Job).sync is None


@pytest.mark.parametrize("text", ["\udcff", "a\0b"])
def test_patterns_that_no_record_can_hold_are_refused(project: ConfigProject, text: str) -> None:
    for flags in (JobFlags(sync=("*.pt", text)), JobFlags(outputs=(text,)), JobFlags(env={"A": text})):
        with pytest.raises(ConfigError, match=r"is not UTF-8 text|holds a NUL"):
            build(project, flags)
