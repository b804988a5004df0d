"""The parts of the benchmark that can be wrong without a figure looking wrong. No test here judges a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import family, idle, measure, tree
from bench.arrays import GOFER, HYPERQUEUE, SUBMITIT, TSP, TSP_QUEUED, array_bars, throughput
from bench.drivers.gofer_array import seconds
from bench.errors import BenchError
from bench.family import Limits
from bench.figures import Bar, Figure, Ratio, at_most, count_at_most, number
from bench.peers import NEEDED, NGINX, PINNED, TASK_SPOOLER, none
from bench.places import Places
from bench.report import Section, Table, document, memory, missed, pair, table_text, verdict
from bench.rounds import Competitor, interleave
from bench.submits import launch

# What hyperqueue 0.27.0 says on stdout before the driver's own line.
HYPERQUEUE_OUTPUT = """\
+------------------+-------------------------+
| Server directory | /scratch/array          |
| Server UID       | 6CvTmV                  |
| Client port      | 36427                   |
| Worker port      | 36981                   |
| Version          | v0.27.0                 |
| Journal path     |                         |
+------------------+-------------------------+
{"run_s": 1.9743, "whole_s": 1.9782, "count": 1000}
"""


def constant(value: float) -> Figure:
    return Figure(value, value, 1)


def test_a_figure_is_the_minimum_and_the_median() -> None:
    assert Figure.of([5.0, 1.0, 2.0, 8.0]) == Figure(minimum=1.0, median=3.5, count=4)


def test_a_figure_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Figure.of([])


def test_a_ratio_compares_minima_with_minima_and_medians_with_medians() -> None:
    assert Ratio.of(Figure(6.0, 9.0, 3), Figure(2.0, 6.0, 3)) == Ratio(3.0, 1.5)


def test_a_ratio_to_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no ratio"):
        Ratio.of(constant(1.0), constant(0.0))


@pytest.mark.parametrize(("value", "met"), [(4.9, True), (5.0, True), (5.1, False)])
def test_a_bar_is_met_up_to_its_limit(value: float, met: bool) -> None:
    assert at_most("p", 5, constant(value), constant(1.0)).met is met


def test_a_bar_with_one_side_is_not_judged() -> None:
    assert at_most("p", 5, constant(1.0), None).met is None
    assert at_most("p", 5, None, constant(1.0)).met is None
    assert count_at_most("p", 0, None, "processes").met is None


def test_a_count_over_its_limit_misses_the_bar() -> None:
    bar = count_at_most("p", 0, 2, "processes")
    assert (bar.met, bar.value) == (False, "2 processes")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12,346")],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(True, "met"), (False, "**MISSED**"), (None, "not judged")])
def test_a_missed_bar_is_loud(value: bool | None, text: str) -> None:
    assert verdict(Bar("p", "v", value)) == text


def test_the_array_bars_are_about_rates() -> None:
    """Times a run: gofer 2 ms, HyperQueue 2 ms, tsp 4 and 8 ms, submitit 200 ms."""
    each = {GOFER: 0.002, HYPERQUEUE: 0.002, TSP: 0.004, TSP_QUEUED: 0.008, SUBMITIT: 0.2}
    bars = array_bars({name: constant(value) for name, value in each.items()})
    assert [(bar.value.split("x")[0], bar.met) for bar in bars[:4]] == [
        ("100", True),
        ("2.00", False),
        ("4.00", True),
        ("1.00", True),
    ]
    assert bars[4].met is None, "the case of ten times the rows was not measured"


def test_twice_as_slow_as_hyperqueue_is_the_limit() -> None:
    assert [
        array_bars({GOFER: constant(ours), HYPERQUEUE: constant(0.002)})[3].met for ours in (0.004, 0.0041)
    ] == [True, False]


def test_a_driver_s_line_is_found_below_what_the_peer_says() -> None:
    sample = throughput(HYPERQUEUE_OUTPUT, cpu_s=3.0)
    assert (sample.run_s, sample.whole_s, sample.count, sample.cpu_s) == (1.9743, 1.9782, 1000, 3.0)


@pytest.mark.parametrize("output", ["", "error: no such thing\n", '{"run_s": 1}\n', "[]\n"])
def test_a_driver_without_a_result_is_an_error(output: str) -> None:
    with pytest.raises(BenchError, match="printed no result"):
        throughput(output, cpu_s=0.0)


def test_gofer_s_times_span_the_first_start_to_the_last_end() -> None:
    rows = [
        {"started_at": "2026-11-16T10:00:00.250000Z", "ended_at": "2026-11-16T10:00:02.000000Z"},
        {"started_at": "2026-11-16T10:00:00.000000Z", "ended_at": "2026-11-16T10:00:01.500000Z"},
    ]
    assert seconds(rows) == 2.0


def test_the_document_names_what_was_missed_and_what_was_not_measured() -> None:
    section = Section(
        "c",
        "Arrays",
        "Taken so.",
        (Table(("", "runs/s"), (("gofer", "300"), ("a|b", "7"))),),
        (Bar("ahead of tsp", "0.5x its rate", False), Bar("ahead of submitit", "60x its rate", True)),
        {"HyperQueue": "not installed"},
    )
    text = document([("date", "today")], {"gofer": "0.1.0"}, [section], "python -m bench c")
    assert "| c | ahead of tsp | 0.5x its rate | **MISSED** |" in text
    assert "| c | ahead of submitit | 60x its rate | met |" in text
    assert "Not measured: HyperQueue: not installed" in text
    assert "| a\\|b | 7 |" in text
    assert "- versions: gofer 0.1.0" in text
    assert missed([section]) == 1


def test_a_row_that_does_not_fit_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="3 cells, the table 2"):
        table_text(Table(("", "x"), (("a", "b", "c"),)))


def test_cells_are_in_the_unit_of_the_column() -> None:
    assert pair(Figure(0.0123, 0.5, 2), 1000) == ("12.3", "500")


def test_memory_below_the_benchmark_s_own_is_a_limit() -> None:
    assert memory(constant(20.2), floor_mib=20.0) == "≤ 20.2"
    assert memory(constant(50.0), floor_mib=20.0) == "50.0"


def test_competitors_take_turns_and_a_failing_one_drops_out() -> None:
    order: list[str] = []

    def works(name: str) -> float:
        order.append(name)
        return float(len(order))

    def breaks() -> float:
        order.append("bad")
        if order.count("bad") == 2:
            raise BenchError("it broke")
        return 0.0

    competitors = [
        Competitor("one", lambda: works("one")),
        Competitor("bad", breaks),
        Competitor("two", lambda: works("two"), most_rounds=1),
    ]
    outcome = interleave(competitors, 3)
    assert order == ["one", "bad", "two", "one", "bad", "one"]
    assert outcome.samples == {"one": [1.0, 4.0, 6.0], "two": [3.0]}
    assert outcome.failures == {"bad": "it broke"}
    assert outcome.figure("bad", lambda sample: sample) is None


def test_warm_up_rounds_are_run_and_not_counted() -> None:
    turns: list[int] = []

    def attempt() -> float:
        turns.append(len(turns))
        return float(turns[-1])

    outcome = interleave([Competitor("one", attempt)], 2, warm_ups=1)
    assert outcome.samples == {"one": [1.0, 2.0]}


def test_a_measured_command_s_output_and_cpu_come_back(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint('done')"
    sample = measure.run([sys.executable, "-c", burn], env=os.environ, cwd=tmp_path)
    assert sample.output == "done\n"
    assert sample.cpu_s >= 0.2


def test_cpu_of_children_counts(tmp_path: Path) -> None:
    burn = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.2: pass'; true"
    assert measure.run(["sh", "-c", burn], env=os.environ, cwd=tmp_path).cpu_s >= 0.2


def test_a_failing_command_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="ended with 3: second"):
        measure.run(["sh", "-c", "echo first >&2; echo second >&2; exit 3"], env=os.environ, cwd=tmp_path)


def test_an_accepted_status_is_no_error(tmp_path: Path) -> None:
    assert measure.run(["sh", "-c", "exit 12"], env=os.environ, cwd=tmp_path, accepted=(0, 12)).output == ""


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="took too long"):
        measure.run(["sleep", "60"], env=os.environ, cwd=tmp_path, timeout_s=0.2)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="did not start"):
        measure.run(["/nonexistent/program"], env=os.environ, cwd=tmp_path)


def test_a_daemon_s_cpu_and_stay_are_counted(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    detached = ["setsid", "--fork", sys.executable, "-c", burn]
    seen = family.run(detached, env=os.environ, cwd=tmp_path, limits=Limits(timeout_s=60, linger_s=60))
    assert seen.cpu_s >= 0.3
    assert seen.linger_s > 0
    assert seen.left == ()


def test_a_daemon_that_stays_is_named_and_killed(tmp_path: Path) -> None:
    env = {**os.environ, "GOFER_HOME": str(tmp_path)}
    detached = ["setsid", "--fork", "sleep", "321.5"]
    seen = family.run(detached, env=env, cwd=tmp_path, limits=Limits(timeout_s=60, linger_s=1))
    assert seen.left == ("sleep 321.5",)
    assert idle.belonging(tmp_path) == []


def test_a_family_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    env = {**os.environ, "GOFER_HOME": str(tmp_path)}
    command = ["sh", "-c", "setsid --fork sleep 322.5; sleep 322.5"]
    with pytest.raises(BenchError, match="ended with 124"):
        family.run(command, env=env, cwd=tmp_path, limits=Limits(timeout_s=1, linger_s=1))
    assert idle.belonging(tmp_path) == []


def test_a_launch_sees_the_first_instruction_and_the_return(tmp_path: Path) -> None:
    seen = launch(["env"], os.environ, tmp_path, tmp_path / "fifo")
    assert 0 < seen.first_instruction_s < 300
    assert 0 < seen.returned_s < 300


def test_a_launch_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="ended with 127"):
        launch(["env", "/nonexistent/program"], os.environ, tmp_path, tmp_path / "fifo")


def test_processes_of_a_home_are_found_and_swept(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["sleep", "300"], env={**os.environ, "GOFER_HOME": str(tmp_path / "home")}
    ) as process:
        assert idle.belonging(tmp_path / "home") == [process.pid]
        idle.sweep(tmp_path / "home")
        assert process.wait(60) == -9
    assert idle.belonging(tmp_path / "home") == []


def test_the_tree_is_the_same_every_time_and_has_the_requested_size(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        tree.make(folder, files=300, size=600_000, env=dict(os.environ))
        files = sorted(path for path in folder.rglob("*.txt") if ".git" not in path.parts)
        contents.append([(path.relative_to(folder), path.read_bytes()) for path in files])
    assert contents[0] == contents[1]
    assert len(contents[0]) == 300
    assert 598_000 < sum(len(data) for _, data in contents[0]) <= 600_000


def test_one_changed_file_is_what_git_sees(tmp_path: Path) -> None:
    tree.make(tmp_path, files=400, size=40_000, env=dict(os.environ))
    size = tree.change_one(tmp_path, 7)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(status) == 1
    assert (tmp_path / status[0].split()[1]).stat().st_size == size


def test_the_environment_of_children_has_nothing_that_skews_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("GOFER_TARGET", "lab")
    places = Places.open({"GOFER_BENCH_DIR": str(tmp_path)})
    env = places.gofer_environment(tmp_path / "home")
    assert "PYTHONDONTWRITEBYTECODE" not in env
    assert "GOFER_TARGET" not in env
    assert env["GOFER_HOME"] == str(tmp_path / "home")
    assert Path(env["HOME"]).is_relative_to(tmp_path)


def test_a_peer_left_out_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="torchx is not installed: left out by --no-peers"):
        none(tmp_path).program("torchx", "torchx")


def test_every_peer_that_is_compared_has_a_version() -> None:
    compared = {peer for peers in NEEDED.values() for peer in peers}
    assert compared == {*PINNED, TASK_SPOOLER, NGINX}
