"""`K8sHome`: a `Home` with a target on the test cluster and a container of its own in the cluster's store."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from clusters.k8s.cluster import Kubernetes
from clusters.k8s.images import PYTHON
from clusters.k8s.store import ACCOUNT, KEY, create_container, endpoint
from home import Home

_YAML = """
target: lab
targets:
  lab: {{kind: kubernetes, kubeconfig: {kubeconfig}, image: "{image}", gpus_per_node: 4, store: lab{options}}}
{more}
stores:
  lab: {{url: az://{container}/me/gofer, account: {account}, endpoint: "{endpoint}",
         key: "${{env:DUMMY_KEY}}"}}
"""


class K8sHome(Home):
    """`options` are more options of the target `lab`, as text in YAML; `more` are more targets."""

    def __init__(self, root: Path, k8s: Kubernetes, *, options: str = "", more: str = "") -> None:
        super().__init__(root)
        self.k8s = k8s
        self.container = f"runs-{uuid4().hex[:12]}"
        create_container(k8s, self.container)
        self.environ |= {**k8s.exports, "DUMMY_KEY": KEY, "HOME": str(root)}
        text = _YAML.format(
            kubeconfig=k8s.site.kubeconfig,
            image=PYTHON,
            container=self.container,
            account=ACCOUNT,
            endpoint=endpoint(k8s),
            options=f", {options}" if options else "",
            more=more,
        )
        (self.folder / "gofer.yaml").write_text(text)
