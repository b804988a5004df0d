"""`python -m simulators.azure.usage DIR`: writes exports.sh and a project, and says what to type."""

from __future__ import annotations

import json
import shlex
import ssl
import sys
import urllib.request
from pathlib import Path

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE
from simulators.azure.tokens import CLIENT, SECRET, TENANT

_CONTAINER = "gofer"
_TARGETS = """target: aml
stores:
  sim: {{url: "az://{container}/me", account: {account}, key: "${{env:SIM_KEY}}", endpoint: "{endpoint}"}}
targets:
  aml: {{{place}, compute: gpu-cluster, gpus_per_node: 4}}
  itp: {{{place}, platform: itp, compute: itp-cluster, instance_type: gpu4, gpus_per_node: 4}}
  vc: {{{place}, platform: singularity, virtual_cluster: sim-vc, instance_type: ND40rs_v2, gpus_per_node: 8}}
"""
_NEXT = """. {folder}/exports.sh
cd {folder}/project       # its gofer.yaml has the targets aml (4 GPUs a node), itp and vc (Singularity)
gofer -n 8 submit -f sh -c 'echo rank $RANK of $WORLD_SIZE'
gofer q last
gofer target show vc
"""


def environment(base: str, authority: str) -> dict[str, str]:
    """The variables that point a client at the simulator."""
    return {
        "ARM_CLOUD_METADATA_URL": f"{base}/metadata/endpoints?api-version=2022-09-01",
        "AZURE_AUTHORITY_HOST": base,
        "REGISTRY_DISCOVERY_ENDPOINT_URL": f"{base}/",
        "SSL_CERT_FILE": authority,
        "REQUESTS_CA_BUNDLE": authority,
        "AZURE_TENANT_ID": TENANT,
        "AZURE_CLIENT_ID": CLIENT,
        "AZURE_CLIENT_SECRET": SECRET,
    }


def targets(account: str, endpoint: str) -> str:
    """A gofer.yaml with a target of each platform."""
    where = f"subscription_id: {SUBSCRIPTION}, resource_group: {GROUP}, workspace: {WORKSPACE}"
    place = f'kind: azureml, {where}, image: "ubuntu:22.04", store: sim'
    return _TARGETS.format(container=_CONTAINER, account=account, endpoint=endpoint, place=place)


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    is_told = json.loads((folder / "sim.json").read_text())
    keys = json.loads((folder / "accounts.json").read_text())
    account = next(iter(keys))
    authority = folder / "ca.pem"
    body = json.dumps({"account": account, "name": _CONTAINER}).encode()
    headers = {"Authorization": f"Bearer {is_told['admin_token']}"}
    request = urllib.request.Request(f"{is_told['base']}/_sim/containers", body, headers)
    context = ssl.create_default_context(cafile=str(authority))
    urllib.request.urlopen(request, context=context, timeout=30).close()
    variables = {**environment(is_told["base"], str(authority)), "SIM_KEY": keys[account]}
    write(folder, variables, targets(account, f"{is_told['blobs']}/{account}"))
    print(_NEXT.format(folder=shlex.quote(sys.argv[1])), end="")
    return 0


def write(folder: Path, variables: dict[str, str], config: str) -> None:
    """What a person needs: variables for the shell, and a project with a target of each platform."""
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    lines.append(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n")
    (folder / "exports.sh").write_text("".join(lines))
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project" / "gofer.yaml").write_text(config)


if __name__ == "__main__":
    sys.exit(main())
