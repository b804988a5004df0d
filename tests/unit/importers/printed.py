"""The files of the older tools with the keys, the values and the layout that their documents print."""

from __future__ import annotations

ACCOUNT = """\
account_name: xxxx
account_key: xxxx
sas_token: ?xxxx
container_name: xxxx
"""

WORKSPACE = """\
{
    "subscription_id": "xxxx",
    "resource_group": "xxxxx",
    "workspace_name": "xxxxx"
}
"""

CLUSTER = """\
azure_blob_config_file: null # no need to specify, legacy option
datastore_name: null # no need to specify. legacy option
# used to initialize the workspace
aml_config: aux_data/aml/config.json 

config_param: 
   code_path:
       azure_blob_config_file: ./aux_data/configs/vigeastblob_account.yaml # the blob account information
       path: path/to/code.zip # where the zipped source code is
   data_folder:
       azure_blob_config_file: ./aux_data/configs/vigeastblob_account.yaml # the blob account information
       path: path/to/data
   output_folder:
       azure_blob_config_file: ./aux_data/configs/vigeastblob_account.yaml # the blob account information
       path: path/to/output # this folder will be as $ROOT/output
use_custom_docker: true
compute_target: NC24RSV3 
aks_compute: false
docker:
    image: amsword/setup:py36pt16
experiment_name: experiment_name
use_cli_auth: True
multi_process: True
gpu_per_node: 4
env:
   NCCL_IB_DISABLE: '0'
zip_options:
    - '-x'
    - '\\*src/py-faster-rcnn/\\*'
    - '-x'
    - '\\*src/CMC/\\*'
"""  # noqa: W291 - the documents' own blanks at the ends of lines

CLUSTERS = """\
clusters:
    - wu1
    - sc2
"""

PHILLY = """\
vc: input
cluster: wu1
#cluster: sc2
user_name: jianfw
password: null
blob_mount_point: /blob
azure_blob_config_file: ./aux_data/configs/vigeastblob_account.yaml
multi_process: true
config_param:
    # please make sure each path starts with blob_mount_point
    #code_path: /hdfs/input/jianfw/code/quickdetection.zip
    code_path: /blob/jianfw/code/quickdetection.zip
    data_folder: /blob/jianfw/data/qd_data
    #data_folder: /hdfs/input/jianfw/data/qd_data
    model_folder: /blob/jianfw/work/qd_models
    output_folder: /blob/jianfw/work/qd_output
docker:
    image: philly/jobs/test/vig-qd-env
    tag: py36ptnight
"""

TWO_BLOBS = """\
vc: input
cluster: wu1
user_name: jianfw
password: null
blob_mount_info:
    - blob_mount_point: /blob
      azure_blob_config_file: ./aux_data/configs/vigeastblob_account.yaml
      blob_fuse_options:
          - '-o'
          - "attr_timeout=240"
          - "-o"
          - "allow_other"
          - "--file-cache-timeout-in-seconds=10000000"
    - blob_mount_point: /data_blob
      azure_blob_config_file: ./aux_data/configs/vigblob_account.yaml
      blob_fuse_options:
          - '-o'
          - 'ro' # read-only
          - "--log-level=LOG_WARNING"
multi_process: true
config_param:
    code_path: /blob/jianfw/code/quickdetection.zip
    data_folder: /data_blob/jianfw/data/qd_data
    model_folder: /blob/jianfw/work/qd_models
    output_folder: /blob/jianfw/work/qd_output
docker:
    image: philly/jobs/test/vig-qd-env
    tag: py36ptnight
"""

# The sections and defaults of the file that XT ships, with a team's services, and the properties that the
# page on Singularity lists for targets and images.
XT = """\
external-services:
    msrresrchws: {type: "singularity", subscription-id: "dummy-sub", resource-group: "gcr-singularity-resrch"}
    sandboxaml: {type: "aml", subscription-id: "dummy-sub", resource-group: "sandbox"}
    xtstorage: {type: "storage", provider: "azure-blob-21", key: "$vault"}
    filestorage: {type: "storage", provider: "store-file", path: "/srv/xt/file_store"}
    mongodb: {type: "mongo", mongo-connection-string: "$vault"}
    xtvault: {type: "vault", url: "https://vault.invalid"}
    batch: {type: "batch", key: "$vault", url: "https://batch.invalid"}
    registry: {type: "registry", login-server: "reg.invalid", username: "me", password: "dummy-registry-pw"}

xt-services:
    storage: "xtstorage"
    mongo: "mongodb"
    vault: "xtvault"
    target: "local"                    # our default compute target

compute-targets:
    local: {service: "pool", boxes: ["localhost"], setup: "local"}
    lab: {service: "pool", boxes: ["one", "two"], setup: "aml"}
    eus-v100: {service: "msrresrchws", compute: "msrresrchvc", vm-size: "ND40_v2g1", location: "eastus",
        nodes: 2, sla: "premium", setup: "aml", docker: "mine"}
    aml-low: {service: "sandboxaml", compute: "cpu4", vm-size: "Standard_NC6", nodes: 1, low-pri: true}
    batch-gpu: {service: "batch", vm-size: "Standard_NC6", azure-image: "dsvm", nodes: 1, low-pri: true}

dockers:
    mine: {registry: "registry", image: "me/env:1", sing_wrap: true,
        sha256: "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
        post_sing_steps: ["RUN pip install x"]}

setups:
    local: {activate: "$call conda activate $current_conda_env", conda-packages: [], pip-packages: []}
    aml: {activate: null, conda-packages: ["numpy"], pip-packages: ["xtlib==0.0.264", "a b"]}

general:
    advanced-mode: false
    username: "$username"
    azure-tenant-id: null
    workspace: "ws1"
    experiment: "exper1"
    feedback: true
    distributed: false
    env-vars: {MODE: "fast", HF_TOKEN: "dummy-hf-token-value"}
    authentication: "auto"
    primary-metric: "test-acc"

code:
    code-dirs: ["$scriptdir/**"]
    code-upload: true
    code-zip: "fast"
    code-omit: [".git", "__pycache__"]
    working-dir: "."

after-files:
    after-dirs: ["output/**"]
    after-upload: true

data:
    data-local: "~/data/mnist"
    data-upload: false
    data-share-path: "mnist"
    data-action: "download"
    data-omit: []
    data-writable: false

model:
    model-local: ""
    model-share-path: ""
    model-action: "none"
    model-writable: false

aml-options:
    use-gpu: true
    distributed-training: "mpi"
    max-seconds: 7200

hyperparameter-search:
    search-type: "random"
    max-runs: null

commands: []

boxes:
    one: {address: "me@box-one", max-runs: 1, actions: [], setup: "local"}
    two: {address: "me@box-two", max-runs: 1, os: "linux"}
"""

TOOLKIT_1 = """\
{
    "cluster": {
        "virtual_cluster": "msrresrchvc", "instance_type": "ND40_v2g1", "node_count": 2, "sla_tier": "Premium"
    },
    "storage": {
        "datastore_name": "my store", "account_name": "acct", "account_key": "dummy/account/key==",
        "container_name": "box", "sas_token": "?sv=1&sig=dummysignature%3D"
    },
    "environment": {
        "docker_image": "AzureML-pytorch",
        "setup_script": ["pip install -r requirements.txt", "nvidia-smi"]
    },
    "experiment": {
        "name": "exp", "job_name": "first try", "workdir": "me/code", "copy_data": true, "sync_code": true,
        "data_dir": "me/data", "data_subdir": "voc; coco", "ignore_dir": "out;tmp",
        "script": ["echo dummy/account/key==", "python train.py --smile \\ud83d\\ude00"]
    }
}
"""

TOOLKIT_2 = """\
{
	"cluster": {
		"workspace": "/subscriptions/S/resourceGroups/G/providers/Microsoft.X/workspaces/W",
		"virtual_cluster": "msroctovc", "instance_type": "Singularity.ND40_v2g1", "node_count": 1,
		"sla_tier": "Basic", "locations": ["eastus"]
	},
	"io": [
		{"name": "data", "datastore": "blob", "path": "me/data", "mode": "ro_mount"},
		{"name": "out", "datastore": "blob", "path": "/me/out/", "mode": "upload"},
		{"name": "far", "datastore": "elsewhere", "path": "x", "mode": "download"}
	],
	"synchronization": {"target": "data", "ignore_dir": "wandb"},
	"environment": {"image": "base/job/pytorch"},
	"experiment": {
		"name": "exp", "job_name": "sweep-${{lr}}",
		"script": ["python t.py --data ${{data}} --lr ${{lr}} --pair ${{a}} ${{b}} ${HOME} {x}"],
		"arg_sweep": ["lr: 0.1, 0.01", "(a, b): (1, 2), (3, 'x, y')", "seed: 2-4"]
	}
}
"""
