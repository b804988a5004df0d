"""The launch contract on this machine: ranks, nodes, GPUs, ports and gofer's own variables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from home import Home

from gofer.core.launch import RANK_VARIABLES

FOUR_A_NODE = "targets: {big: {kind: local, gpus: 8, gpus_per_node: 4}}"
SHOW = ["python", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]

Environ = dict[str, str]


def environments(home: Home, run: dict[str, Any]) -> dict[int, Environ]:
    """What each rank found, by rank."""
    return {
        log["rank"]: json.loads(Path(log["path"]).read_text())
        for log in run["logs"]
        if log["rank"] is not None
    }


def column(found: dict[int, Environ], name: str) -> list[str]:
    return [found[rank][name] for rank in sorted(found)]


def words(numbers: Iterable[int]) -> list[str]:
    return [str(number) for number in numbers]


@pytest.fixture
def big(home: Home) -> Home:
    home.configure(FOUR_A_NODE)
    return home


def test_four_gpus_are_four_ranks_that_see_all_four(home: Home) -> None:
    home.configure("targets: {four: {kind: local, gpus: 4}}")
    run = json.loads(
        home.gofer("submit", "--no-code", "-t", "four", "-n", "4", "--json", "--wait", *SHOW).out
    )
    found = environments(home, run)
    assert (run["gpus"], run["nodes"]) == (4, 1)
    assert column(found, "RANK") == column(found, "LOCAL_RANK") == words(range(4))
    assert set(column(found, "CUDA_VISIBLE_DEVICES")) == {"0,1,2,3"}
    assert set(column(found, "WORLD_SIZE")) == set(column(found, "LOCAL_WORLD_SIZE")) == {"4"}
    assert set(column(found, "NNODES")) == {"1"}


@pytest.mark.parametrize("flags", [["-n", "8"], ["-N", "2", "-n", "8"]])
def test_eight_gpus_are_two_nodes_of_four(big: Home, flags: list[str]) -> None:
    run = big.finish("-t", "big", *flags, *SHOW)
    found = environments(big, run)
    assert run["nodes"] == 2
    assert column(found, "RANK") == words(range(8))
    assert column(found, "NODE_RANK") == ["0"] * 4 + ["1"] * 4
    assert column(found, "CUDA_VISIBLE_DEVICES") == ["0,1,2,3"] * 4 + ["4,5,6,7"] * 4
    assert column(found, "LOCAL_RANK") == words(range(4)) * 2
    assert set(column(found, "WORLD_SIZE")) == {"8"}
    for shared in ("MASTER_ADDR", "MASTER_PORT", "NNODES", "AZ_BATCH_HOST_LIST"):
        assert len(set(column(found, shared))) == 1


def test_every_variable_of_the_contract(big: Home) -> None:
    run = big.finish("-t", "big", "-n", "8", "--tag", "lr=0.1", "--tag", "bare", "--tag", "odd=a b", *SHOW)
    one = environments(big, run)[6]
    folder = big.run_folder(run["id"])
    expected = {
        "RANK": "6", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4",
        "NODE_RANK": "1", "NNODES": "2",
        "OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1", "MASTER_IP": "127.0.0.1", "AZ_BATCH_HOST_LIST": "127.0.0.1,127.0.0.1",
        "GOFER_RUN_ID": run["id"], "GOFER_ATTEMPT": "1", "GOFER_TARGET": "big",
        "GOFER_TAGS": "lr=0.1,bare,odd=a b",
        "GOFER_RUN_DIR": str(folder), "GOFER_OUTPUT_DIR": str(folder / "outputs"),
    }  # fmt: skip
    assert {name: one.get(name) for name in expected} == expected
    assert 1024 <= int(one["MASTER_PORT"]) < 65536
    assert "GOFER_HOME" not in one


def test_the_contract_wins_over_the_callers_variables(big: Home) -> None:
    done = big.gofer(
        "submit", "--no-code", "-t", "big", "-n", "2", "--wait", "--json", "-e", "WORLD_SIZE=77", *SHOW,
        env={"RANK": "99", "CUDA_VISIBLE_DEVICES": "7", "GOFER_TAGS": "old"},
    )  # fmt: skip
    one = environments(big, json.loads(done.out))[0]
    assert (one["RANK"], one["WORLD_SIZE"], one["CUDA_VISIBLE_DEVICES"], one["GOFER_TAGS"]) == (
        "0",
        "2",
        "0,1",
        "",
    )


def test_one_process_gets_no_rank_variables_by_default(home: Home) -> None:
    """The person's own variables stay; those of a run that submits another do not."""
    fields = {"GOFER_RANK_VARIABLES": "always"}
    shell = {"MASTER_PORT": "77"}
    inside = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "h", "GOFER_RUN_ID": "another"}
    words = ("submit", "--no-code", "--wait", "--json", *SHOW)
    found = [
        environments(home, json.loads(home.gofer(*words, env=env).out))[0] for env in (shell, inside, fields)
    ]
    known = [{name: one[name] for name in RANK_VARIABLES if name in one} for one in found]
    assert known[:2] == [shell, {}]
    assert set(known[2]) == set(RANK_VARIABLES) and (known[2]["RANK"], known[2]["WORLD_SIZE"]) == ("0", "1")
    home.configure("job: {rank_variables: always}")
    run = home.finish("--procs", "2", "--rank-variables", "never", *SHOW)
    assert not set(RANK_VARIABLES) & set(environments(home, run)[1])
    refused = home.gofer("submit", "--rank-variables", "sometimes", "true", status=2).err
    assert "rank_variables" in refused and "always" in refused


def test_a_run_without_gpus_on_a_gpu_target_sees_none(big: Home) -> None:
    run = big.finish("-t", "big", *SHOW)
    assert environments(big, run)[0]["CUDA_VISIBLE_DEVICES"] == ""


def test_a_target_without_gpus_leaves_the_callers_choice_alone(home: Home) -> None:
    home.configure("targets: {plain: {kind: local, gpus: 0}}")
    words = ("submit", "--no-code", "--wait", "--json", "-t", "plain", *SHOW)
    run = json.loads(home.gofer(*words, env={"CUDA_VISIBLE_DEVICES": "5"}).out)
    assert environments(home, run)[0]["CUDA_VISIBLE_DEVICES"] == "5"


def test_single_is_one_process_for_each_node(big: Home) -> None:
    run = big.finish("-t", "big", "-n", "8", "--single", *SHOW)
    found = environments(big, run)
    assert column(found, "NODE_RANK") == column(found, "GOFER_RANK") == ["0", "1"]
    assert set(found[1]) & set(RANK_VARIABLES) == {"NODE_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT"}
    assert column(found, "CUDA_VISIBLE_DEVICES") == ["0,1,2,3", "4,5,6,7"]


def test_procs_is_a_number_for_each_node(home: Home) -> None:
    run = home.finish("-N", "2", "--procs", "3", *SHOW)
    found = environments(home, run)
    assert column(found, "RANK") == words(range(6))
    assert column(found, "NODE_RANK") == ["0"] * 3 + ["1"] * 3
    assert (run["nodes"], run["procs"]) == (2, 3)


def test_each_rank_has_a_log_of_its_own(big: Home) -> None:
    run = big.finish("-t", "big", "-n", "8", "sh", "-c", "echo rank $RANK")
    keys = [log["key"] for log in run["logs"]]
    assert keys == [f"runs/{run['id']}/attempts/1/node-{rank // 4}/rank-{rank}.log" for rank in range(8)]
    assert big.log(run["id"], "--rank", "5") == "rank 5\n"
    assert big.log(run["id"], "--node", "1") == "rank 4\n"


def test_ranks_can_meet_at_the_master_port(home: Home) -> None:
    meet = (
        "import os, socket, time\n"
        "place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
        "if os.environ['RANK'] == '0':\n"
        "    with socket.create_server(place) as server:\n"
        "        server.settimeout(60)\n"
        "        print(sorted(server.accept()[0].recv(9) for _ in range(3)))\n"
        "else:\n"
        "    for _ in range(600):\n"
        "        try:\n"
        "            with socket.create_connection(place) as one:\n"
        "                one.sendall(os.environ['RANK'].encode())\n"
        "            break\n"
        "        except ConnectionRefusedError:\n"
        "            time.sleep(0.1)\n"
    )
    run = home.finish("-N", "2", "--procs", "2", "python", "-c", meet)
    assert run["state"] == "succeeded"
    assert home.log(run["id"]) == "[b'1', b'2', b'3']\n"


def test_two_runs_at_once_get_disjoint_gpus(home: Home) -> None:
    home.configure("targets: {four: {kind: local, gpus: 4}}")
    gate = home.root / "gate"
    hold = ["--single", "sh", "-c", f'echo "$CUDA_VISIBLE_DEVICES"; until [ -e {gate} ]; do sleep 0.05; done']
    runs = [home.submit("-t", "four", "-n", "2", *hold) for _ in range(2)]
    seen = [home.until_logged(run, "\n").strip() for run in runs]
    third = home.submit("-t", "four", "-n", "2", *hold)
    home.gofer("wait", "--timeout", "1s", third, status=124)
    assert home.view(third)["state"] == "queued"
    gate.touch()
    assert [one["state"] for one in home.wait(*runs, third)] == ["succeeded"] * 3
    assert sorted(",".join(seen).split(",")) == ["0", "1", "2", "3"]
    assert home.log(third).strip() in seen


def test_the_attempts_tell_which_gpus_they_had(big: Home) -> None:
    run = big.finish("-t", "big", "-n", "8", "true")
    assert run["attempts"][0]["gpus"] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_what_is_left_in_the_output_folder_stays(home: Home) -> None:
    run = home.finish("sh", "-c", 'echo result > "$GOFER_OUTPUT_DIR/answer.txt"; pwd; ls -A')
    assert (home.run_folder(run["id"]) / "outputs" / "answer.txt").read_text() == "result\n"
    # Without code the command runs in an empty folder, which is gone afterwards.
    (folder,) = home.log(run["id"]).splitlines()
    assert folder.startswith(str(home.queue_home.parents[1]))
    assert not os.path.exists(folder)


def test_set_up_runs_once_on_each_node_before_the_command(home: Home) -> None:
    counter = home.root / "count"
    run = home.finish(
        "-N", "2", "--procs", "2", "--setup", f'echo "set up $NODE_RANK" | tee -a {counter}; touch ready',
        "sh", "-c", "test -e ready && echo ran",
    )  # fmt: skip
    assert run["state"] == "succeeded"
    assert sorted(counter.read_text().splitlines()) == ["set up 0", "set up 1"]
    set_up = [log for log in run["logs"] if log["rank"] is None]
    assert [(log["node"], Path(log["path"]).read_text()) for log in set_up] == [
        (0, "set up 0\n"),
        (1, "set up 1\n"),
    ]


def test_a_run_may_submit_another_that_outlives_it(home: Home) -> None:
    gate = home.root / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.05; done; echo inner"
    inner = f"{sys.executable} -m gofer submit -Q --no-code sh -c '{script}'"
    outer = home.finish("-e", f"GOFER_HOME={home.path}", "sh", "-c", inner)
    assert outer["state"] == "succeeded", home.log(outer["id"])
    born = home.log(outer["id"]).strip()
    home.until_event(born, "started")
    gate.touch()
    assert home.wait(born)[0]["state"] == "succeeded"
    assert home.log(born) == "inner\n"
