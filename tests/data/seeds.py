"""The files of the older tools, written as their documents print them, comments included."""

from __future__ import annotations

from pathlib import Path

CLUSTER = """\
azure_blob_config_file: null # no need to specify, legacy option
datastore_name: null # no need to specify. legacy option
# used to initialize the workspace
aml_config: aux_data/aml/config.json

# the following is related with the job submission. If you don't use the
# submission utility here, you can set any value

config_param:
   code_path:
       azure_blob_config_file: ./aux_data/configs/{account}.yaml # the blob account information
       path: path/to/code.zip # where the zipped source code is
   # you can add multiple key-value pairs to configure the folder mapping.
   # Locally, if the folder name is A, and you want A to be a blobfuse
   # folder in the AML side, you need to set the key as A_folder.
   data_folder:
       azure_blob_config_file: ./aux_data/configs/{account}.yaml # the blob account information
       # after the source code is unzipped, this folder will be as $ROOT/data
       path: path/to/data
   output_folder:
       azure_blob_config_file: ./aux_data/configs/{account}.yaml # the blob account information
       path: path/to/output # this folder will be as $ROOT/output
# if False, it will use AML's PyTorch estimator, which is not heavily tested here
use_custom_docker: true
compute_target: NC24RSV3
# if it is the ITP cluster, please set it as true
aks_compute: false
docker:
    # the custom docker. If use_custom_docker is False, this will be ignored
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
"""

ACCOUNT = """\
account_name: {name}
account_key: {key}
sas_token: {sas}
container_name: {container}
"""


def write_cluster(folder: Path, name: str, account: str, text: str = CLUSTER) -> Path:
    """`aux_data/aml/NAME.yaml` of the project in `folder`."""
    return _write(folder / f"aux_data/aml/{name}.yaml", text.replace("{account}", account))


def write_account(folder: Path, stem: str, text: str) -> Path:
    """`aux_data/configs/STEM.yaml` of the project in `folder`."""
    return _write(folder / f"aux_data/configs/{stem}.yaml", text)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
