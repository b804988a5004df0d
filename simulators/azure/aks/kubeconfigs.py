"""The kubeconfig of a cluster: one that leads back to the simulator, or that of a real cluster."""

from __future__ import annotations

import base64
import json

# The application that Azure's API servers accept tokens for.
AKS_SERVER_ID = "6dae42f8-4368-4678-94ff-3960e28e3630"
# A word that opens nothing but a simulator.
DUMMY_TOKEN = "dummy-token"


def made_up_kubeconfig(name: str, base: str, authority: str) -> str:
    """For a cluster without nodes: the simulator itself answers for its API server (see api_server)."""
    data = base64.b64encode(authority.encode()).decode()
    cluster = {"server": f"{base}/kubernetes/{name}", "certificate-authority-data": data}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": f"clusterUser_{name}", "user": {"token": DUMMY_TOKEN}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"clusterUser_{name}"}}],
    }
    return json.dumps(document, indent=1)  # JSON is YAML too


def with_azure_login(text: str) -> str:
    """The kubeconfig with `kubelogin` in place of the user's own credential, as for clusters with Azure AD.

    Only for a kubeconfig in JSON: the simulator knows no YAML.
    """
    document = json.loads(text)
    argv = ["get-token", "--environment", "AzurePublicCloud", "--server-id", AKS_SERVER_ID]
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "kubelogin",
        "args": [*argv, "--client-id", "80faf920-1908-4b52-b5ef-a8e7bedfc67a", "--login", "devicecode"],
        "env": None,
        "provideClusterInfo": False,
    }
    for user in document["users"]:
        user["user"] = {"exec": plugin}
    return json.dumps(document, indent=1)
