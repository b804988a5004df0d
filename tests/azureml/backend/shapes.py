"""Jobs of many shapes, each twice: see azure.backend.shape."""

from __future__ import annotations

from azure.ai.ml import Input, MpiDistribution, PyTorchDistribution
from azure.ai.ml.entities import ManagedIdentityConfiguration, SshJobService, UserIdentityConfiguration
from azureml.backend.records import RUN
from azureml.backend.shape import (
    FAR,
    KEY,
    UAI,
    Shape,
    folder,
    image,
    inputs,
    line,
    output,
    singularity,
    supercomputer,
    uri,
)

from gofer.model.job import Array, Resources
from gofer.transport.bundle import mark


def _processes() -> list[Shape]:
    torch, mpi = (
        PyTorchDistribution(process_count_per_instance=1),
        MpiDistribution(process_count_per_instance=4),
    )
    four = {"gpus_per_node": 4}
    return [
        Shape("plain", {}, {}, {}),
        Shape("named", {}, {"name": "long-name"}, {"display_name": "long-name"}),
        Shape(
            "two-nodes", {}, {"resources": Resources(nodes=2)}, {"instance_count": 2, "distribution": torch}
        ),
        Shape("one-gpu", four, {"resources": Resources(gpus=1)}, {}),
        Shape("whole-node", four, {"resources": Resources(gpus=4)}, {}),
        Shape(
            "two-gpu-nodes",
            four,
            {"resources": Resources(gpus=8)},
            {"instance_count": 2, "distribution": torch},
        ),
        Shape("mpi", four, {"resources": Resources(gpus=4), "launcher": "mpi"}, {"distribution": mpi}),
        Shape(
            "mpi-two-nodes",
            four,
            {"resources": Resources(gpus=8), "launcher": "mpi"},
            {"instance_count": 2, "distribution": mpi},
        ),
    ]


def _words() -> list[Shape]:
    hostile = "a 'b' \"c\" $d `e` \\f ünï {g} ${{inputs.x}}"
    long = ("python", "x" * 2000)
    array = Array(("lr",), (("0.1",), ("0.01",)))
    return [
        Shape("hour", {}, {"time_limit_s": 3600.0}, {"timeout": 3600 + 10 + 600}),
        Shape("time-of-the-target", {"time": 90.0}, {}, {"timeout": 90 + 10 + 600}),
        Shape(
            "days-and-retries",
            {},
            {"time_limit_s": 2.5 * 86400, "retries": 2, "grace_s": 30.0},
            {"timeout": int(3 * (2.5 * 86400 + 30) + 600)},
        ),
        Shape("env", {}, {"env": {"A": "b", "C": ""}}, {"environment_variables": {"A": "b", "C": ""}}),
        Shape("hostile-env", {}, {"env": {"A": hostile}}, {"environment_variables": {"A": hostile}}),
        Shape(
            "secret-env", {}, {"env": {"A": "b", "K": "${secret:k}"}}, {"environment_variables": {"A": "b"}}
        ),
        Shape(
            "tags",
            {},
            {"tags": {"team": "x", "ünï": hostile}},
            {"tags": {"team": "x", "ünï": hostile, "gofer": "0.1.0"}},
        ),
        Shape("hostile-command", {}, {"command": ("echo", "a'b")}, {"description": 'echo "a\'b"'}),
        Shape("long-command", {}, {"command": long}, {"description": f"python {'x' * 2000}"[:1000]}),
        Shape("experiment", {"experiment": "my exp/1"}, {}, {"experiment_name": "my-exp-1"}),
        Shape(
            "python",
            {"python": "/opt/my conda/python"},
            {},
            {"command": line(python="'/opt/my conda/python'")},
        ),
        Shape(
            "row",
            {},
            {"command": ("python", "train.py", "{lr}")},
            {
                "name": f"{RUN}-1",
                "command": line("--row", "1"),
                "display_name": "train-1",
                "description": "python train.py 0.01",
            },
            array,
            1,
        ),
    ]


def _folders() -> list[Shape]:
    data = folder("az://data", "me/data", "copy")
    out = folder("az://data", "me/out", "mount")
    other = folder("az://other/deep", "x", "upload")
    copied = Input(type="uri_folder", path=uri("az://data", "me/data"), mode="download")
    odd = {"my-data.v2": data, "my_data_v2": data}
    return [
        Shape(
            "copied-folder",
            {},
            {"folders": {"data": data}},
            {"command": line("data=${{inputs.folder_data}}"), "inputs": inputs(folder_data=copied)},
        ),
        Shape(
            "mounted-folder",
            {},
            {"folders": {"output": out}},
            {
                "command": line("output=${{outputs.folder_output}}"),
                "outputs": {"folder_output": output("az://data", "me/out", "rw_mount")},
            },
        ),
        Shape(
            "folder-to-read",
            {},
            {"folders": {"data": folder("az://data", "me/data", "mount", read_only=True)}},
            {
                "command": line("data=${{inputs.folder_data}}"),
                "inputs": inputs(
                    folder_data=Input(type="uri_folder", path=uri("az://data", "me/data"), mode="ro_mount")
                ),
            },
        ),
        Shape(
            "uploaded-folder",
            {},
            {"folders": {"models": other}},
            {
                "command": line("models=${{outputs.folder_models}}"),
                "outputs": {"folder_models": output("az://other/deep", "x", "upload")},
            },
        ),
        Shape(
            "three-folders",
            {},
            {"folders": {"data": data, "output": out, "models": other}},
            {
                "command": line(
                    "data=${{inputs.folder_data}}",
                    "output=${{outputs.folder_output}}",
                    "models=${{outputs.folder_models}}",
                ),
                "inputs": inputs(folder_data=copied),
                "outputs": {
                    "folder_output": output("az://data", "me/out", "rw_mount"),
                    "folder_models": output("az://other/deep", "x", "upload"),
                },
            },
        ),
        Shape(
            "folders-of-odd-names",
            {},
            {"folders": odd},
            {
                "command": line(
                    "my-data.v2=${{inputs.folder_my_data_v2}}", "my_data_v2=${{inputs.folder_my_data_v2_1}}"
                ),
                "inputs": inputs(folder_my_data_v2=copied, folder_my_data_v2_1=copied),
            },
        ),
        Shape("folder-of-another-cloud", {}, {"folders": {"data": folder("s3://bucket", "x", "copy")}}, {}),
    ]


def _environments() -> list[Shape]:
    registry = "azureml://registries/azureml/environments/sklearn-1.5"
    ssh = {"ssh": SshJobService(ssh_public_keys=KEY, nodes="all")}
    private = "reg.azurecr.io/team/train:1.2"
    return [
        Shape("private-image", {"image": private}, {}, {"environment": image(private)}),
        Shape("environment", {"image": None, "environment": "mine:3"}, {}, {"environment": "mine:3"}),
        Shape(
            "registry-version",
            {"image": None, "environment": f"{registry}/versions/7"},
            {},
            {"environment": f"{registry}/versions/7"},
        ),
        Shape(
            "registry-label",
            {"image": None, "environment": f"{registry}/labels/latest"},
            {},
            {"environment": f"{registry}/labels/latest"},
        ),
        Shape(
            "curated",
            {"image": None, "environment": "AzureML-sklearn-1.0@latest"},
            {},
            {"environment": "AzureML-sklearn-1.0@latest"},
        ),
        Shape(
            "curated-version",
            {"image": None, "environment": "AzureML-sklearn-1.0:3"},
            {},
            {"environment": "azureml:AzureML-sklearn-1.0:3"},
        ),
        Shape("managed-identity", {"identity": "managed"}, {}, {"identity": ManagedIdentityConfiguration()}),
        Shape("user-identity", {"identity": "user"}, {}, {"identity": UserIdentityConfiguration()}),
        Shape(
            "client-identity",
            {"identity": "11111111-2222-3333-4444-555555555555"},
            {},
            {"identity": ManagedIdentityConfiguration(client_id="11111111-2222-3333-4444-555555555555")},
        ),
        Shape(
            "assigned-identity",
            {"identity": UAI},
            {},
            {"identity": ManagedIdentityConfiguration(resource_id=UAI)},
        ),
        Shape("shells", {"interactive": True, "ssh_public_key": KEY}, {}, {"services": ssh}),
        Shape(
            "memory",
            {"shm_size": "64g", "docker_args": "--ipc=host"},
            {},
            {"shm_size": "64g", "docker_args": "--ipc=host"},
        ),
        Shape("instance-type", {"instance_type": "STANDARD_D2"}, {}, {"instance_type": "STANDARD_D2"}),
        Shape(
            "own-datastore",
            {"datastore": "mine"},
            {},
            {
                "inputs": {
                    "gofer_agent": Input(
                        type="uri_file",
                        path=f"azureml://datastores/mine/paths/me/gofer/agents/{mark()}.zip",
                        mode="download",
                    ),
                    "gofer_run": Input(
                        type="uri_folder",
                        path=f"azureml://datastores/mine/paths/me/gofer/rooms/{RUN}",
                        mode="download",
                    ),
                }
            },
        ),
        Shape("kubernetes", {"platform": "itp", "instance_type": "gpu4"}, {}, {"instance_type": "gpu4"}),
        Shape(
            "kubernetes-preemptible",
            {"platform": "itp", "instance_type": "gpu4", "preemptible": True},
            {},
            {"instance_type": "gpu4", "properties": {"preemptionAllowed": True}},
        ),
    ]


def _clusters() -> list[Shape]:
    scale = {"autoScaleIntervalInSec": 60, "maxInstanceTypeCount": 8, "minInstanceTypeCount": 2}
    where = ("eastus", "westus2")
    return [
        singularity("singularity", {}, {}),
        singularity(
            "singularity-basic",
            {"sla": "basic", "priority": "low", "locations": where},
            {
                "locations": list(where),
                **supercomputer(slaTier="Basic", priority="Low", locations=list(where)),
            },
        ),
        singularity(
            "singularity-standard",
            {"sla": "standard", "priority": "medium"},
            supercomputer(slaTier="Standard", priority="Medium"),
        ),
        singularity("singularity-elsewhere", {"virtual_cluster": FAR}, {"compute": FAR}),
        singularity(
            "singularity-scale",
            {"scale": {"min": 2, "max": 8, "interval_s": 60}},
            supercomputer(scalePolicy=scale),
        ),
        singularity(
            "singularity-image-version",
            {"image_version": "pytorch-2.1", "enable_azml_int": False},
            supercomputer(imageVersion="pytorch-2.1", enableAzmlInt=False),
        ),
        singularity(
            "singularity-shells",
            {"interactive": True, "ssh_public_key": KEY},
            supercomputer(interactive=True, sshPublicKey=KEY),
        ),
        singularity(
            "singularity-two-nodes",
            {},
            {"instance_count": 2, "distribution": PyTorchDistribution(process_count_per_instance=1)},
            resources=Resources(gpus=2),
        ),
        singularity(
            "singularity-identity",
            {"identity": UAI},
            {
                "identity": ManagedIdentityConfiguration(resource_id=UAI),
                "environment_variables": {"_AZUREML_SINGULARITY_JOB_UAI": UAI},
            },
        ),
    ]


SHAPES = [*_processes(), *_words(), *_folders(), *_environments(), *_clusters()]
assert len({one.name for one in SHAPES}) == len(SHAPES)
