"""Options that take any value, such as the part of a pod template on Kubernetes."""

from __future__ import annotations

from typing import Any

import msgspec

from gofer.config.yaml.decode import Decoder, struct_type
from gofer.config.yaml.document import parse_document
from gofer.config.yaml.nodes import Table


class Free(msgspec.Struct, frozen=True):
    """One option that takes a map of anything."""

    pod: dict[str, Any] = {}


def decoded(text: str) -> Any:
    node = parse_document(text, source="gofer.yaml")
    assert isinstance(node, Table)
    return Decoder().struct(node.entries, struct_type(Free), "", node.place).pod


def test_maps_lists_numbers_and_booleans_are_as_the_yaml_says() -> None:
    text = """\
pod:
  metadata: {annotations: {k8s.v1.cni.cncf.io/networks: ib0, "on": "true", port: "22"}}
  spec:
    hostIPC: true
    securityContext: {runAsUser: 0, ratio: 0.5, empty: null, mode: 0o400}
    volumes: [{name: data, hostPath: {path: /mnt/data}}, no]
    key: "${secret:token}"
"""
    assert decoded(text) == {
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "ib0", "on": "true", "port": "22"}},
        "spec": {
            "hostIPC": True,
            "securityContext": {"runAsUser": 0, "ratio": 0.5, "empty": None, "mode": "0o400"},
            "volumes": [{"name": "data", "hostPath": {"path": "/mnt/data"}}, "no"],
            "key": "${secret:token}",
        },
    }
