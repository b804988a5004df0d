"""What a person waits for: the first instruction of a command, a line of its log, a shell."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.errors import BenchError
from bench.figures import Bar, Figure, number
from bench.k8s.cluster import BenchKubernetes, GoferUser
from bench.report import Table, pair
from bench.rounds import Competitor, Outcome, interleave

GOFER, KUBECTL = "gofer", "kubectl"
_STAMP = ("python3", "-u", "-c", "import time; print(time.time())")
_LINES = 20
_TICKING = (
    "python3",
    "-u",
    "-c",
    f"import time\nfor at in range({_LINES}): print(time.time()); time.sleep(0.7)\ntime.sleep(600)",
)
_MOST_WAIT_S = 120.0


def first_instruction(cluster: BenchKubernetes) -> Outcome[float]:
    """Seconds from the start of the client to the first line of the command, by the clock of this machine."""
    user = cluster.new_user("lab")
    numbers = iter(range(10_000))

    def gofer() -> float:
        began = time.time()
        run = user.submit(*_STAMP)
        user.gofer("wait", run)
        return float(user.gofer("logs", run).output.split()[-1]) - began

    def kubectl() -> float:
        name = f"stamp-{next(numbers)}"
        file = cluster.file(cluster.job(name, *_STAMP))
        began = time.time()
        cluster.kubectl("create", "-f", file)
        cluster.kubectl("wait", "--for=condition=Complete", f"job/{name}", "--timeout=100s")
        return float(cluster.kubectl("logs", f"job/{name}").output.split()[-1]) - began

    return _taken(cluster, gofer, kubectl)


def log_line(cluster: BenchKubernetes) -> Outcome[float]:
    """Seconds from the printing of a line to its arrival at a person who follows the log; the median of a
    log.
    """
    user = cluster.new_user("lab")
    numbers = iter(range(10_000))

    def gofer() -> float:
        run = user.submit(*_TICKING)
        try:
            with ending(user.follow("logs", "-f", run)) as child:
                return _lateness(child)
        finally:
            user.gofer("abort", "-y", run)

    def kubectl() -> float:
        name = f"ticking-{next(numbers)}"
        cluster.kubectl("create", "-f", cluster.file(cluster.job(name, *_TICKING)))
        cluster.kubectl("wait", "--for=jsonpath={.status.ready}=1", f"job/{name}", "--timeout=100s")
        argv, pipe = ["kubectl", "logs", "-f", f"job/{name}"], subprocess.PIPE
        with ending(subprocess.Popen(argv, env=dict(cluster.env), stdout=pipe)) as child:
            return _lateness(child)

    return _taken(cluster, gofer, kubectl)


def shell(cluster: BenchKubernetes) -> Outcome[float]:
    """Seconds until a command in the pod of a run has printed and ended."""
    user = cluster.new_user("lab")
    run = user.submit("sleep", "3600")
    pod = _pod_of(cluster, user, run)

    def gofer() -> float:
        return user.gofer("ssh", run, "echo", "here").wall_s

    def kubectl() -> float:
        return cluster.kubectl("exec", pod, "-c", "gofer", "--", "echo", "here").wall_s

    return _taken(cluster, gofer, kubectl)


def _pod_of(cluster: BenchKubernetes, user: GoferUser, run: str) -> str:
    """The pod of the run, when it runs."""
    deadline = time.monotonic() + _MOST_WAIT_S
    while time.monotonic() < deadline:
        if '"running"' in user.gofer("q", run, "--json").output:
            return cluster.kubectl("get", "pods", f"--selector=job-name={run}", "-o", "name").output.strip()
        time.sleep(0.5)
    raise BenchError(f"the run did not run after {_MOST_WAIT_S:g} s")


def _taken(
    cluster: BenchKubernetes, gofer: Callable[[], float], kubectl: Callable[[], float]
) -> Outcome[float]:
    rounds = cluster.plan.k8s_rounds
    outcome = interleave([Competitor(GOFER, gofer), Competitor(KUBECTL, kubectl)], rounds, warm_ups=1)
    cluster.empty()
    return outcome


def _lateness(child: subprocess.Popen[bytes]) -> float:
    """The median over the lines, without the first, which waits for the start."""
    late = []
    assert child.stdout
    for line in child.stdout:
        words = line.split()
        if len(words) == 1 and words[0].replace(b".", b"").isdigit():
            late.append(time.time() - float(words[0]))
        if len(late) == _LINES:
            break
    if len(late) < _LINES:
        raise BenchError(f"only {len(late)} of {_LINES} lines arrived")
    return Figure.of(late[1:]).median


@contextmanager
def ending(child: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The child, which ends with the block."""
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def table(title: str, outcome: Outcome[float]) -> Table:
    rows = [(name, *pair(Figure.of(taken), 1000)) for name, taken in outcome.samples.items()]
    return Table(("", "min ms", "median ms"), tuple(rows), title)


def bar(promise: str, most_over_s: float, outcome: Outcome[float]) -> Bar:
    """gofer's minimum against kubectl's."""
    ours, theirs = (outcome.figure(name, float) for name in (GOFER, KUBECTL))
    if ours is None or theirs is None:
        return Bar(promise, "a side was not measured", None)
    over_s = ours.minimum - theirs.minimum
    value = f"{over_s:+.2f} s (medians {ours.median - theirs.median:+.2f} s)"
    return Bar(promise, value, over_s <= most_over_s)


def plain_bar(promise: str, most_s: float, outcome: Outcome[float]) -> Bar:
    """gofer's minimum alone."""
    ours = outcome.figure(GOFER, float)
    if ours is None:
        return Bar(promise, "not measured", None)
    return Bar(promise, f"{number(ours.minimum)} s", ours.minimum <= most_s)
