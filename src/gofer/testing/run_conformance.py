"""What one run must find and how its end must be told, on every backend; the first half of the suite.

`gofer.testing.backend_conformance` has the rest and says how to use both. Commands need nothing on the nodes
but a POSIX shell; only the case of functions needs a `python` or `python3` of the version of this process. A
suite without one sets `has_python` to False. Nothing here imports pytest.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any
from unittest import SkipTest

from gofer.config.jobs import JobFlags
from gofer.core import run_layout as names
from gofer.core.launch import RANK_VARIABLES, Contract, NodePlace, rank_environment
from gofer.ops.functions.archive import Arguments, CodeSource, pack_calls
from gofer.ops.functions.results import ResultReader
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.runs.observe import wait
from gofer.ops.runs.query import facts
from gofer.ops.session import Session
from gofer.ops.submission.submit import SubmitRequest, plan, submit
from gofer.tracking.ledger import RunRow

HOSTILE = (
    "two  blanks",
    "",
    "line\nbreak\n",
    "tab\tescape\x1b[31m",
    "'single' \"double\" `back` \\backslash\\",
    "$HOME ${RANK} $(id) %s %d {x} {{x}}",
    "*? [a-z] ~ #no ;&|<>()!",
    "--help",
    "naïve 日本 😀",
    "x" * 8000,
)
_SHARED = ("MASTER_ADDR", "MASTER_PORT", "MASTER_IP", "AZ_BATCH_HOST_LIST")
_SHOW_WORDS = 'printf "%s\\0" "$@"'
_SHOW_VARIABLES = 'for name in "$@"; do eval "printf \'%s\\0\' \\"\\${$name-unset}\\""; done'


class RunConformance:
    """The cases of one run: its environment, its files, and the report of its end."""

    target = "local"
    gpus_per_node = 0
    has_python = True
    timeout_s = 300.0

    def open(self) -> Session:
        """A session in an empty project folder, with `target` in its settings; called once in each test."""
        raise NotImplementedError

    def start(
        self,
        session: Session,
        command: Sequence[str],
        *,
        each: Sequence[str] = (),
        code: bool = False,
        **job: Any,
    ) -> RunRow:
        """Submit without waiting; `job` takes the fields of JobFlags."""
        request = SubmitRequest(
            flags=JobFlags(**job), command=tuple(command), target=self.target, each=tuple(each), code=code
        )
        return submit(session, request)

    def finish(self, session: Session, command: Sequence[str], **job: Any) -> RunRow:
        """Submit and wait for the end."""
        return self.ended(session, self.start(session, command, **job))

    def ended(self, session: Session, row: RunRow) -> RunRow:
        return wait(session, [row.id], timeout_s=self.timeout_s)[0]

    def log(self, session: Session, row: RunRow, **which: Any) -> bytes:
        return b"".join(LogReader(session, row).read(LogChoice(**which)))

    def variables(self, session: Session, row: RunRow, rank: int, wanted: Sequence[str]) -> dict[str, str]:
        values = self.log(session, row, rank=rank).decode().split("\0")
        return dict(zip(wanted, values, strict=False))

    # -- what the command is given

    def test_every_word_of_the_command_arrives_as_it_was_given(self) -> None:
        with self.open() as session:
            row = self.finish(session, ["sh", "-c", _SHOW_WORDS, "sh", *HOSTILE])
            assert self.log(session, row).decode().split("\0")[:-1] == list(HOSTILE)

    def test_variables_arrive_as_they_were_given(self) -> None:
        wanted = {f"ODD_{number}": word for number, word in enumerate(HOSTILE)}
        with self.open() as session:
            row = self.finish(session, ["sh", "-c", _SHOW_VARIABLES, "sh", *wanted], env=wanted)
            assert self.variables(session, row, 0, list(wanted)) == wanted

    def test_a_secret_reaches_the_command_and_no_record(self) -> None:
        with self.open() as session:
            session.settings.secrets.set("conformance", "not-a-real-secret")
            env = {"TOKEN": "${secret:conformance}"}
            script = 'printf %s "$TOKEN" | cksum; printf %s "$TOKEN"'
            row = self.finish(session, ["sh", "-c", script], env=env)
            assert self.log(session, row) == b"2039203516 17\n" + b"*" * 17
            flags = JobFlags(env=env)
            shown = plan(
                session, SubmitRequest(flags=flags, command=("true",), target=self.target, code=False)
            )
            kept = session.store(row.store).get(names.record_key(row.id)).decode()
            assert "not-a-real-secret" not in shown + kept

    def test_the_launch_contract_on_every_rank(self) -> None:
        shape = NodePlace(run_id="", attempt=1, node=0, nodes=2, procs=2, gpus=None, hosts=[""], port=0)
        exact = [name for name in rank_environment(shape, 0, Contract()) if name not in _SHARED]
        wanted = [*exact, *_SHARED, "GOFER_TARGET", "GOFER_TAGS"]
        with self.open() as session:
            command = ["sh", "-c", _SHOW_VARIABLES, "sh", *wanted]
            row = self.finish(session, command, nodes=2, procs=2, tags={"a": "b", "c": ""})
            found = [self.variables(session, row, rank, wanted) for rank in range(4)]
        for rank, seen in enumerate(found):
            place = shape._replace(run_id=row.id, node=rank // 2)
            due = rank_environment(place, rank, Contract())
            due.update(GOFER_TARGET=self.target, GOFER_TAGS="a=b,c")
            assert {name: seen[name] for name in wanted if name not in _SHARED} == {
                name: due[name] for name in wanted if name not in _SHARED
            }
        for name in _SHARED:
            assert len({seen[name] for seen in found}) == 1
        assert found[0]["MASTER_ADDR"] not in ("", "unset")
        assert 0 < int(found[0]["MASTER_PORT"]) < 65536
        assert len(found[0]["AZ_BATCH_HOST_LIST"].split(",")) == 2

    def test_rank_variables_are_only_for_ranks(self) -> None:
        own = ["GOFER_RANK", "GOFER_NODE_RANK"]
        # A service may list its hosts under its own name for them.
        wanted = [*own, *(name for name in RANK_VARIABLES if not name.startswith("AZ_BATCH_"))]
        with self.open() as session:
            command = ["sh", "-c", _SHOW_VARIABLES, "sh", *wanted]
            row = self.finish(session, command, env={"WORLD_SIZE": "of the person"})
            alone = self.variables(session, row, 0, wanted)
            row = self.finish(session, command, nodes=2, multi_process=False)
            nodes = [self.variables(session, row, rank, wanted) for rank in range(2)]
        known = {name: value for name, value in alone.items() if value != "unset"}
        assert known == {"GOFER_RANK": "0", "GOFER_NODE_RANK": "0", "WORLD_SIZE": "of the person"}
        shared = ("MASTER_ADDR", "MASTER_PORT")
        for number, seen in enumerate(nodes):
            known = {name: value for name, value in seen.items() if value != "unset" and name not in shared}
            assert known == {"NNODES": "2", **dict.fromkeys([*own, "NODE_RANK"], str(number))}
        assert len({seen[name] for seen in nodes for name in shared}) == 2

    def test_each_gpu_of_a_node_is_a_rank_that_sees_all_of_them(self) -> None:
        if not self.gpus_per_node:
            raise SkipTest("this target has no GPUs")
        with self.open() as session:
            command = ["sh", "-c", _SHOW_VARIABLES, "sh", "CUDA_VISIBLE_DEVICES"]
            row = self.finish(session, command, gpus=self.gpus_per_node)
            seen = {self.log(session, row, rank=rank) for rank in range(self.gpus_per_node)}
            assert [len(value.split(b",")) for value in seen] == [self.gpus_per_node]

    def test_code_is_there_as_it_was_at_submit(self) -> None:
        with self.open() as session:
            (session.folder / "file with blanks.txt").write_text("before ")
            for name, seconds in (("key", 1_600_000_002), ("newer", 1_600_000_002), ("older", 1_600_000_001)):
                (session.folder / name).write_text("")
                os.utime(session.folder / name, (seconds, seconds))
            (session.folder / "key").chmod(0o600)
            show = "cat *.txt; [ newer -nt older ] && echo in order; ls -l key | cut -c 1-10"
            row = self.start(session, ["sh", "-c", show], code=True)
            (session.folder / "file with blanks.txt").write_text("after")
            assert self.log(session, self.ended(session, row)) == b"before in order\n-rw-------\n"

    def test_set_up_runs_once_on_each_node_before_the_command(self) -> None:
        with self.open() as session:
            setup = 'echo "here $NODE_RANK" >> mark'
            row = self.finish(session, ["sh", "-c", "cat mark"], setup=setup, nodes=2, procs=2)
            found = [self.log(session, row, rank=rank) for rank in range(4)]
            assert found == [b"here 0\n"] * 2 + [b"here 1\n"] * 2

    # -- what comes back

    def test_output_is_kept_byte_for_byte(self) -> None:
        with self.open() as session:
            count = 'i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done'
            script = count + '; printf "\\377"; echo end >&2'
            row = self.finish(session, ["sh", "-c", script])
            assert (
                self.log(session, row)
                == b"".join(b"line %d\n" % number for number in range(20000)) + b"\xffend\n"
            )
            assert LogReader(session, row).tail(lines=1) == b"\xffend\n"

    def test_a_log_can_be_followed_to_its_end(self) -> None:
        with self.open() as session:
            row = self.start(session, ["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.3; done"])
            assert b"".join(LogReader(session, row).follow(lines=None)) == b"1\n2\n3\n"

    def test_outputs_are_in_the_store_at_the_end(self) -> None:
        with self.open() as session:
            row = self.finish(session, ["sh", "-c", 'echo result > "$GOFER_OUTPUT_DIR/answer"'])
            assert session.store(row.store).get(f"{names.outputs_key(row.id)}/answer") == b"result\n"

    def test_a_function_returns_its_value_or_its_exception(self) -> None:
        if not self.has_python:
            raise SkipTest("the nodes have no `python` of this version")
        with self.open() as session:
            source = CodeSource(session.folder, session.settings.code_folder.path)
            packed = pack_calls(operator.truediv, [Arguments((4, 2)), Arguments((4, 0))], source)
            group = submit(session, SubmitRequest(target=self.target, code=False, function=packed))
            reader = ResultReader(session, self.ended(session, group))
            good, bad = session.ledger.rows_of(group.id)
            assert (good.state, bad.state) == ("succeeded", "failed"), (good.detail, bad.detail)
            assert reader.value(good) == 2.0
            raised = reader.error(bad)
            assert raised is not None and isinstance(raised.error, ZeroDivisionError)
            assert raised.traceback in self.log(session, bad).decode()

    def test_files_beside_the_code_are_kept_and_in_place_for_a_retry(self) -> None:
        script = (
            "cat ck/step 2>/dev/null; cat code; mkdir -p ck; echo $GOFER_ATTEMPT > ck/step; "
            "echo changed >> code; [ $GOFER_ATTEMPT = 2 ]"
        )
        with self.open() as session:
            (session.folder / "code").write_text("sent\n")
            row = self.finish(session, ["sh", "-c", script], retries=1, code=True)
            assert row.state == "succeeded"
            assert self.log(session, row) == b"1\nsent\nchanged\n"
            store, top = session.store(row.store), names.files_key(row.id)
            assert store.get(f"{top}/ck/step") == b"2\n"
            assert store.get(f"{top}/code") == b"sent\nchanged\nchanged\n"

    def test_exit_codes_are_exact(self) -> None:
        with self.open() as session:
            for code in (0, 1, 42, 255):
                row = self.finish(session, ["sh", "-c", f"exit {code}"])
                wanted = ("failed", "exit-code", code) if code else ("succeeded", None, 0)
                assert (row.state, row.reason, row.exit_code) == wanted
                assert row.started_at is not None and row.ended_at is not None
                assert row.submitted_at - 60 < row.started_at <= row.ended_at

    def test_signals_are_exact(self) -> None:
        with self.open() as session:
            for number in (9, 11, 15):
                row = self.finish(session, ["sh", "-c", f"ulimit -c 0; kill -{number} $$; sleep 60"])
                assert (row.state, row.reason, row.exit_code) == ("failed", "signal", 128 + number)

    def test_the_first_failing_rank_is_named(self) -> None:
        script = '[ "$RANK" = 2 ] && { echo "the cause"; exit 7; }; trap "exit 9" TERM; sleep 300 & wait'
        with self.open() as session:
            row = self.finish(session, ["sh", "-c", script], nodes=2, procs=2)
            assert (row.state, row.reason, row.exit_code) == ("failed", "exit-code", 7)
            first = facts(session, row).first_failure
            assert first is not None and (first.node, first.rank, first.tail[-1]) == (1, 2, "the cause")

    def test_set_up_that_fails_is_the_reason(self) -> None:
        with self.open() as session:
            row = self.finish(session, ["echo", "never"], setup="echo no such wheel; exit 3")
            assert (row.state, row.reason) == ("failed", "set-up")

    def test_the_time_limit_is_the_reason(self) -> None:
        with self.open() as session:
            script = "trap '' TERM; while :; do sleep 0.1; done"
            row = self.finish(session, ["sh", "-c", script], time_limit_s=2.0, grace_s=0.5)
            assert (row.state, row.reason) == ("failed", "time-limit")

    def test_a_failure_is_tried_again_and_keeps_its_log(self) -> None:
        with self.open() as session:
            script = 'echo "try $GOFER_ATTEMPT"; [ "$GOFER_ATTEMPT" = 2 ]'
            row = self.finish(session, ["sh", "-c", script], retries=2)
            assert row.state == "succeeded"
            assert [(one["number"], one["state"]) for one in row.attempts] == [
                (1, "failed"),
                (2, "succeeded"),
            ]
            assert [self.log(session, row, attempt=number) for number in (1, 2)] == [b"try 1\n", b"try 2\n"]

    def test_a_reason_that_was_not_named_is_not_tried_again(self) -> None:
        with self.open() as session:
            row = self.finish(session, ["sh", "-c", "exit 3"], retries=2, retry_on=("node-failure",))
            assert [one["number"] for one in row.attempts] == [1]
