"""What jobs need of nodes: types of GPU, and nodes that can never run a job."""

from __future__ import annotations

import pytest

from gofer.backends.azureml import facts as azure
from gofer.backends.node_needs import are_of_type, is_of_type, needs_of_node
from gofer.backends.slurm.facts import GpuChoice, check_nodes, choose_gpus
from gofer.errors import CheckFailed
from gofer.model.job import Job, Resources
from gofer.model.layout import lay_out
from gofer.remote.api import SlurmNodeFacts


@pytest.mark.parametrize(
    ("wanted", "name", "fits"),
    [
        ("a100", "NVIDIA A100-SXM4-80GB", True),
        ("A100-80GB", "nvidia_a100_80gb_pcie", True),
        ("a10", "NVIDIA A100-SXM4-80GB", False),
        ("rtx-4090", "NVIDIA GeForce RTX 4090", True),
        ("h100", "", False),
    ],
)
def test_a_type_is_words_of_a_name(wanted: str, name: str, fits: bool) -> None:
    assert is_of_type(wanted, name) == fits


def test_a_machine_has_a_type_when_all_its_gpus_have() -> None:
    assert are_of_type("a100", ["NVIDIA A100", "NVIDIA A100"])
    assert not are_of_type("a100", ["NVIDIA A100", "Tesla T4"])
    assert not are_of_type("a100", [])


def node(
    name: str, gpus: dict[str, int], *, cpus: int = 8, gib: int = 32, features: str = ""
) -> SlurmNodeFacts:
    return SlurmNodeFacts(
        name, "idle", [], cpus, 0, gib << 10, 0, gpus, dict.fromkeys(gpus, 0), features.split()
    )


SITE = [
    node("a1", {"a100-40": 4}, features="nvlink"),
    node("a2", {"a100-80": 4}, gib=64),
    node("h1", {"gpu": 8}, features="H100 fast"),
    node("c1", {}, cpus=64, features="v100"),
]


def test_gpus_are_chosen_by_type_or_by_feature() -> None:
    assert choose_gpus(SITE, "A100-80", "lab") == GpuChoice(gres_type="a100-80")
    assert choose_gpus(SITE, "80", "lab") == GpuChoice(gres_type="a100-80")
    assert choose_gpus(SITE, "h100", "lab") == GpuChoice(feature="H100")
    with pytest.raises(CheckFailed, match=r"several types .* are `a100`: `a100-40`, `a100-80`"):
        choose_gpus(SITE, "a100", "lab")
    with pytest.raises(CheckFailed, match="`lab` has none") as caught:
        choose_gpus(SITE, "v100", "lab")  # a node without GPUs has that feature
    assert caught.value.hint == "its types and features are `a100-40`, `a100-80`, `nvlink`, `H100`, `fast`"


@pytest.mark.parametrize(
    ("asked", "choice", "words"),
    [
        (
            Resources(gpus=8, memory="60GiB"),
            GpuChoice(),
            "2 nodes of here with 4 GPUs and 60.0 GiB of memory; 1 ",
        ),
        (
            Resources(gpus=8),
            GpuChoice(gres_type="a100-40"),
            "2 nodes of here with 4 GPUs; 1 of its 4 nodes have",
        ),
        (Resources(nodes=5), GpuChoice(), "5 nodes of here; it has 4"),
        (Resources(cpus=65), GpuChoice(), "a node of here with 65 CPUs; 0 of its 4 nodes have that"),
    ],
)
def test_what_no_node_can_run_is_refused(asked: Resources, choice: GpuChoice, words: str) -> None:
    job = Job(command=("x",), resources=asked, multi_process=False)
    with pytest.raises(CheckFailed) as caught:
        check_nodes(SITE, job, lay_out(job, gpus_per_node=4, target="lab"), choice, where="here")
    assert words in caught.value.message


def test_what_the_nodes_can_run_passes() -> None:
    for asked in (Resources(gpus=12), Resources(nodes=4), Resources(cpus=64), Resources(memory="64GiB")):
        job = Job(command=("x",), resources=asked, multi_process=False)
        layout = lay_out(job, gpus_per_node=4, target="lab")
        check_nodes(SITE, job, layout, GpuChoice(), where="here")
        check_nodes([], job, layout, GpuChoice(), where="a site that names no nodes")


def test_needs_in_words() -> None:
    job = Job(command=("x",), resources=Resources(gpus=2, cpus=3, memory="1.5GiB", gpu_type="t4"))
    layout = lay_out(job, gpus_per_node=2, target="lab")
    words = "2 GPUs of the type `t4`, 6 CPUs and 1.5 GiB of memory"
    assert needs_of_node(job.resources, layout) == words


KUBERNETES = {
    "properties": {
        "properties": {
            "instanceTypes": {
                "default": {"resources": {"limits": {"cpu": "2"}}},
                "big": {"resources": {"limits": {"nvidia.com/gpu": 4, "memory": "512Gi"}}},
                "small": {"resources": {"limits": {"nvidia.com/gpu": 4, "memory": "64Gi"}}},
                "odd": {
                    "nodeSelector": {"accelerator": "nvidia-h100"},
                    "resources": {"limits": {"nvidia.com/gpu": 8}},
                },
            }
        }
    }
}


@pytest.mark.parametrize(
    ("gpus", "gpu_type", "memory_mib", "name"),
    [
        (1, None, 0, "small"),
        (1, None, 100_000, "big"),
        (1, None, 600_000, "odd"),
        (1, "h100", 0, "odd"),
        (0, None, 0, "default"),
        (9, None, 0, None),
        (1, "a100", 0, None),
    ],
)
def test_the_smallest_instance_type_that_fits(
    gpus: int, gpu_type: str | None, memory_mib: int, name: str | None
) -> None:
    found = azure.smallest_type(azure.kubernetes_types(KUBERNETES), gpus, gpu_type, memory_mib)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("size", "gpu"),
    [
        ("Standard_NC24ads_A100_v4", "a100"),
        ("Standard_ND96asr_v4", "a100"),
        ("ND40rs_v2", "v100"),
        ("ND40_v2g1", "v100"),
        ("STANDARD_NC6S_V3", "v100"),
        ("Standard_NC4as_T4_v3", "t4"),
        ("Standard_ND96isr_H100_v5", "h100"),
    ],
)
def test_the_gpu_of_a_machine_size(size: str, gpu: str) -> None:
    known = ("a100", "v100", "t4", "h100", "p100")
    assert [one for one in known if azure.has_gpu_of_type(size, one)] == [gpu]
