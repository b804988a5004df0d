"""The typed request of a node: what backends write is what nodes read."""

from __future__ import annotations

import json

import msgspec
import pytest

from gofer.backends.azureml.plan import AzureRequest
from gofer.backends.node_request import CommonRequest
from gofer.backends.queue_plan import QueueRequest
from gofer.backends.slurm.plan import SlurmRequest
from gofer.core.node_request import NodeLayout, NodeRequest, decode
from gofer.model.layout import Layout

KINDS = (CommonRequest, QueueRequest, SlurmRequest, AzureRequest)
# Slurm's own, which gofer adds on the cluster when it writes the request.
ADDED = {"kill_wait_s"}


def test_the_nodes_know_every_field_that_a_backend_writes() -> None:
    written = {name for kind in KINDS for name in kind.__struct_fields__}
    assert written | ADDED == set(NodeRequest._fields)
    assert set(Layout.__struct_fields__) == set(NodeLayout._fields)


def test_a_field_that_a_backend_may_leave_out_has_the_same_default_on_the_nodes() -> None:
    for kind in (*KINDS, Layout):
        node: type[NodeRequest | NodeLayout] = NodeLayout if kind is Layout else NodeRequest
        fields = {field.name: field.default for field in msgspec.structs.fields(kind)}
        # A field that is not set is left out of the request, so that the nodes take their own default.
        absent = (msgspec.NODEFAULT, msgspec.UNSET)
        given = {name: value for name, value in fields.items() if value not in absent}
        assert given == {name: node._field_defaults[name] for name in given}


def test_fields_that_are_missing_or_not_known() -> None:
    request = decode({"id": "r", "command": ["true"], "layout": {"nodes": 2, "shape": "odd"}, "later": 1})
    assert request == NodeRequest("r", NodeLayout(nodes=2), command=["true"])
    assert (request.packages, request.multi_process, request.keep_bytes) == ("none", True, None)
    with pytest.raises(KeyError):
        decode({"command": ["true"]})


def test_encoding_loses_nothing() -> None:
    request = NodeRequest(
        "r",
        NodeLayout(2, 1, 3, 4, True, 5),
        code={"folder": "/c", "git": True},
        folders={"data": {"store": "s", "path": "p", "mode": "copy"}},
        command=["a", "b"],
        rows=[["1"], ["2"]],
        batch_signal=("USR1", 3.5),
    )
    text = json.dumps(request.encode())
    again = decode(json.loads(text))
    assert json.dumps(again.encode()) == text
    assert again.layout == request.layout
