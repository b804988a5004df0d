"""Commands that are launchers: which they are, what cannot be filled, and what they are given."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gofer.core.command.command_launcher import detect, refusal
from gofer.core.command.launcher_options import (
    Hostfiles,
    Launched,
    LaunchResources,
    hosts_with_slots,
    prepare,
    render_hostfiles,
    resources_of,
    under_torchrun,
    write_hostfiles,
)
from gofer.core.launch import NodePlace
from gofer.core.node_request import NodeLayout, NodeRequest

FILES = Hostfiles("/c.hostfile", "/c.hydra-hostfile")


def place(node: int = 1, nodes: int = 2) -> NodePlace:
    hosts = [f"host{number}" for number in range(nodes)]
    return NodePlace(
        run_id="r1", attempt=1, node=node, nodes=nodes, procs=1, gpus=None, hosts=hosts, port=29500
    )


@pytest.mark.parametrize(
    ("command", "name", "options"),
    [
        ("torchrun --standalone x.py", "torchrun", "--standalone"),
        ("/opt/env/bin/torchrun x.py", "torchrun", "x.py"),
        ("python -m torch.distributed.run x.py", "torchrun", "x.py"),
        ("python3.11 -u -X dev -m torch.distributed.launch --use_env x.py", "torchrun", "--use_env"),
        ("python -um torch.distributed.run x.py", "torchrun", "x.py"),
        ("python /opt/env/bin/torchrun x.py", "torchrun", "x.py"),
        ("uv run torchrun x.py", "torchrun", "x.py"),
        ("uv run --with torch --no-sync -- torchrun x.py", "torchrun", "x.py"),
        ("uv --project sub run torchrun x.py", "torchrun", "x.py"),
        ("poetry run python -m torch.distributed.run x.py", "torchrun", "x.py"),
        ("env -u RANK OMP_NUM_THREADS=1 A=b nice -n 5 torchrun x.py", "torchrun", "x.py"),
        ("time -p nohup torchrun x.py", "torchrun", "x.py"),
        ("python -mtorch.distributed.run --nnodes 2 x.py", "torchrun", "--nnodes"),
        ("timeout -s INT 1h stdbuf -oL setsid torchrun x.py", "torchrun", "x.py"),
        ("taskset -c 0-3 ionice -c 2 numactl -N 0 --localalloc torchrun x.py", "torchrun", "x.py"),
        ("pixi run -e cuda accelerate launch x.py", "accelerate launch", "x.py"),
        ("hatch -e gpu run micromamba run -n env torchrun x.py", "torchrun", "x.py"),
        ("accelerate launch --multi_gpu x.py", "accelerate launch", "--multi_gpu"),
        ("python -m accelerate.commands.launch x.py", "accelerate launch", "x.py"),
        ("fabric run --devices 2 x.py", "fabric run", "--devices"),
        ("lightning run model x.py", "fabric run", "x.py"),
        ("lightning run x.py", "fabric run", "x.py"),
        ("mpirun -np 4 ./solver", "mpirun", "-np"),
        ("mpiexec.hydra -n 4 ./solver", "mpirun", "-n"),
        ("horovodrun -np 4 python x.py", "horovodrun", "-np"),
        ("deepspeed --num_gpus 2 x.py", "deepspeed", "--num_gpus"),
        ("deepspeed --no_ssh x.py", "deepspeed --no_ssh", "--no_ssh"),
        ("deepspeed x.py --no_ssh", "deepspeed", "x.py"),
        ("python -m deepspeed.launcher.runner --no_ssh x.py", "deepspeed --no_ssh", "--no_ssh"),
        ("accelerate-launch x.py", "accelerate launch", "x.py"),
        ("python -m accelerate.commands.accelerate_cli launch x.py", "accelerate launch", "x.py"),
        ("python -m lightning.fabric.cli run x.py", "fabric run", "x.py"),
        ("srun -n 4 hostname", "srun", "-n"),
        ("ray start --head", "ray", "start"),
    ],
)
def test_a_launcher_is_recognised(command: str, name: str, options: str) -> None:
    argv = shlex.split(command)
    found = detect(argv)
    assert found is not None and (found.name, argv[found.at]) == (name, options)
    assert found.spans_nodes == (name in ("mpirun", "horovodrun", "deepspeed", "srun", "ray"))


@pytest.mark.parametrize(
    "command",
    [
        *("python train.py", "python -m pytest", "python -c 'import torch.distributed.run'", "./torchrun.sh"),
        *(
            "accelerate config",
            "fabric --help",
            "uv pip install torchrun",
            "env",
            "uv run",
            "python -m",
            "sh -c torchrun",
        ),
        *("echo torchrun", "lightning_train.py", "nice", "timeout", "timeout torchrun", "taskset 3"),
        *("python -mpytest", "hatch build", "python -Wm x.py"),
    ],
)
def test_other_commands_are_not(command: str) -> None:
    assert detect(shlex.split(command)) is None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("torchrun --standalone x.py", "`--standalone` is for one node"),
        ("torchrun --nproc-per-node 2 --node_rank=0 x.py", "`--node-rank` would be the same on every node"),
        ("torchrun --nnodes 4 x.py", "`--nnodes 4` is another number of nodes"),
        ("accelerate launch --machine_rank 0 x.py", "`--machine-rank` would be the same on every node"),
        ("fabric run --num-nodes=3 x.py", "`--num-nodes 3` is another number of nodes"),
        (
            "accelerate launch --use_fsdp --num_machines 3 x.py",
            "`--num-machines 3` is another number of nodes",
        ),
        ("accelerate launch --use_deepspeed x.py --machine_rank 0", None),
        ("deepspeed --no_ssh --node_rank 0 x.py", "`--node-rank` would be the same on every node"),
        ("torchrun --nnodes 1:4 x.py --standalone", None),
        ("torchrun --nnodes=2 x.py --node-rank 7", None),
        ("mpirun -np 4 x", None),
        (
            "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 x.py",
            "`--rdzv-endpoint localhost:0` is another place on every node",
        ),
        (
            "torchrun --rdzv_endpoint 127.0.0.1:29400 x.py",
            "`--rdzv-endpoint 127.0.0.1:29400` is another place on every node",
        ),
        ("torchrun --rdzv_endpoint [::1] x.py", "`--rdzv-endpoint [::1]` is another place on every node"),
        ("torchrun --rdzv_endpoint host0:29400 x.py", None),
        ("torchrun --master_addr localhost x.py", None),  # not looked at beside the endpoint that gofer fills
        (
            "accelerate launch --main_process_ip localhost x.py",
            "`--main-process-ip localhost` is another place on every node",
        ),
        (
            "deepspeed --no_ssh --master_addr ::1 x.py",
            "`--master-addr ::1` is another place on every node",
        ),
    ],
)
def test_what_cannot_be_filled_is_said(command: str, words: str | None) -> None:
    argv = shlex.split(command)
    launcher = detect(argv)
    assert launcher is not None
    assert refusal(launcher, argv, 2) == words
    assert refusal(launcher, argv, 1) is None


def test_nodes_of_one_machine_can_meet_at_localhost() -> None:
    for port, words in (
        ("29400", None),
        ("0", "`--rdzv-endpoint localhost:0` is another place on every node"),
    ):
        argv = ["torchrun", f"--rdzv-endpoint=localhost:{port}", "x.py"]
        launcher = detect(argv)
        assert launcher is not None
        assert refusal(launcher, argv, 2, one_machine=True) == words


def prepared(
    command: str, *, node: int = 1, nodes: int = 2, gpus: int = 8, in_slurm: bool = False
) -> Launched:
    argv = shlex.split(command)
    launcher = detect(argv)
    assert launcher is not None
    return prepare(
        launcher.name, argv, place(node, nodes), LaunchResources(gpus, gpus // nodes, FILES, in_slurm)
    )


def test_torchrun_is_filled_by_its_variables() -> None:
    found = prepared("torchrun --nproc-per-node 4 x.py")
    assert found.argv == shlex.split("torchrun --nproc-per-node 4 x.py")
    assert found.environment == {
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "host0",
        "PET_MASTER_PORT": "29500",
        "PET_RDZV_ENDPOINT": "host0:29500",
        "PET_RDZV_ID": "r1",
    }
    assert prepared("torchrun --standalone x.py", node=0, nodes=1) == (
        ["torchrun", "--standalone", "x.py"],
        {},
    )


def test_launchers_that_read_no_variables_get_options() -> None:
    given = "--num_machines=2 --machine_rank=1 --main_process_ip=host0 --main_process_port=29500"
    assert prepared("uv run accelerate launch x.py --lr 1").argv == shlex.split(
        f"uv run accelerate launch --multi_gpu {given} --num_processes=8 x.py --lr 1"
    )
    assert "--num_processes=8" not in prepared("accelerate launch --num_processes 4 x.py").argv
    assert prepared("lightning run model --devices 4 x").argv == shlex.split(
        "lightning run model --num_nodes=2 --node_rank=1 --main_address=host0 --main_port=29500 --devices 4 x"
    )


def test_accelerate_joins_nodes_by_option_with_gpus_and_by_ranks_without(tmp_path: Path) -> None:
    for kind in ("--multi_gpu", "--use_fsdp", "--config_file=c.yaml", "--cpu"):
        assert prepared(f"accelerate launch {kind} x.py").argv.count("--multi_gpu") == (kind == "--multi_gpu")
    alone = prepared("accelerate launch x.py", gpus=0)
    assert "--multi_gpu" not in alone.argv and "--num_processes=2" in alone.argv
    assert alone.environment == {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    resources = LaunchResources(8, 4, FILES).with_config_in({"HF_HOME": str(tmp_path)})
    assert not resources.accelerate_config
    (tmp_path / "accelerate").mkdir()
    (tmp_path / "accelerate" / "default_config.yaml").touch()
    configured = resources.with_config_in({"HF_HOME": str(tmp_path)})
    argv = ["accelerate", "launch", "x.py"]
    assert "--multi_gpu" not in prepare("accelerate launch", argv, place(), configured).argv
    assert "--multi_gpu" in prepare("accelerate launch", argv, place(), resources).argv


def test_deepspeed_without_ssh_gets_its_node(tmp_path: Path) -> None:
    found = prepared("deepspeed --no_ssh x.py")
    options = "--hostfile=/c.hostfile --node_rank=1 --master_addr=host0 --master_port=29500"
    assert found.argv == shlex.split(f"deepspeed {options} --no_ssh x.py")
    files = Hostfiles(str(tmp_path / "slots"), str(tmp_path / "hydra"))
    one_machine = place()._replace(hosts=["127.0.0.1", "127.0.0.1"])
    write_hostfiles(one_machine, LaunchResources(8, 4, files))
    assert (tmp_path / "slots").read_text() == "node-0 slots=4\nnode-1 slots=4\n"


def test_launchers_that_span_nodes_get_a_hostfile() -> None:
    found = prepared("mpirun -np 8 ./solver", node=0)
    assert found.argv == ["mpirun", "-np", "8", "./solver"]
    assert found.environment["GOFER_HOSTFILE"] == found.environment["OMPI_MCA_orte_default_hostfile"]
    assert found.environment["HYDRA_HOST_FILE"] == "/c.hydra-hostfile"
    assert prepared("mpirun -np 8 ./solver", node=0, nodes=1).environment == {"GOFER_HOSTFILE": "/c.hostfile"}
    in_slurm = prepared("mpirun -np 8 ./solver", node=0, in_slurm=True).environment
    assert in_slurm["SLURM_TASKS_PER_NODE"] == "4(x2)" and "OMPI_MCA_orte_default_hostfile" not in in_slurm
    request = NodeRequest("r", NodeLayout(nodes=2, cpus_per_proc=3))
    assert resources_of(request, FILES, in_slurm=False) == LaunchResources(0, 3, FILES)
    meeting = ["--master_addr=host0", "--master_port=29500"]
    with_hosts = ["deepspeed", "--hostfile=/c.hostfile", *meeting, "x.py"]
    assert prepared("deepspeed x.py", node=0).argv == with_hosts
    assert prepared("deepspeed -H mine x.py", node=0).argv == ["deepspeed", "-H", "mine", "x.py"]
    assert prepared("horovodrun -np 4 -H a:2,b:2 python x.py", node=0).argv[1] == "-np"
    hosts = hosts_with_slots(place(0), 4)
    assert render_hostfiles(hosts) == ("host0 slots=4\nhost1 slots=4\n", "host0:4\nhost1:4\n")
    one_machine = place(0)._replace(hosts=["127.0.0.1", "127.0.0.1"])
    assert hosts_with_slots(one_machine, 3) == [("localhost", 6)]
    alone = prepare("deepspeed", ["deepspeed", "x.py"], one_machine, LaunchResources(4, 2, FILES))
    assert alone.argv[1] == "--no_ssh_check"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --lr 1", "python -m torch.distributed.run OPTIONS train.py --lr 1"),
        (
            "uv run python -u -m pkg.train x",
            "uv run python -u -m torch.distributed.run OPTIONS --module pkg.train x",
        ),
        ("python -um pkg x", "python -u -m torch.distributed.run OPTIONS --module pkg x"),
        ("timeout 1h python -mpkg x", "timeout 1h python -m torch.distributed.run OPTIONS --module pkg x"),
        ("python -c code x", "python -m torch.distributed.run OPTIONS --no-python python -c code x"),
        ("env", "python -m torch.distributed.run OPTIONS --no-python env"),
        ("./train.sh a", "python -m torch.distributed.run OPTIONS --no-python ./train.sh a"),
    ],
)
def test_a_command_under_torchrun(command: str, expected: str) -> None:
    options = "--nproc-per-node=3 --nnodes=2 --node-rank=1 --master-addr=host0 --master-port=29500"
    found = under_torchrun(shlex.split(command), place(), 3)
    assert found == (shlex.split(expected.replace("OPTIONS", options)), {})
    alone = under_torchrun(shlex.split(command), place(0, 1), 3)
    assert alone.argv == shlex.split(expected.replace("OPTIONS", "--nproc-per-node=3 --standalone"))


def test_a_run_on_its_first_node_only_has_one_rank() -> None:
    first, second = (place(node)._replace(first_node_only=True) for node in (0, 1))
    assert (first.ranks, second.ranks, first.world_size) == ([0], [], 1)
