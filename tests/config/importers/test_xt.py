"""XT's settings: its targets, what they name, and every other key with a reason."""

from __future__ import annotations

import pytest
from config.importers.printed import XT
from config.importers.shop import Shop, fates, tree

from gofer.config.dockers import docker
from gofer.config.folders import folders_of
from gofer.config.importers.keys import Outcome
from gofer.errors import ConfigError


@pytest.fixture
def xt(shop: Shop) -> Shop:
    shop.put("xt_config.yaml", XT)
    return shop


def test_the_target_of_the_page_on_singularity(xt: Shop) -> None:
    target = tree(xt.plan("xt_config.yaml"))["targets"]["eus-v100"]
    assert target == {
        "kind": "azureml",
        "platform": "singularity",
        "subscription_id": "dummy-sub",
        "resource_group": "gcr-singularity-resrch",
        "workspace": "msrresrchws",
        "virtual_cluster": "msrresrchvc",
        "instance_type": "ND40_v2g1",
        "sla": "premium",
        "locations": ["eastus"],
        "image": "mine",
        "experiment": "exper1",
        "store": "xtstorage",
        "job": {
            "time_limit": "7200s",
            "nodes": 2,
            "setup": "conda install -y numpy\npython -m pip install xtlib==0.0.264 'a b'\n",
            "env": {"MODE": "fast", "HF_TOKEN": "${secret:HF_TOKEN}"},
        },
        "folders": {"mnist": {"store": "xtstorage-data", "path": "mnist", "mode": "copy"}},
    }


def test_images_go_to_a_section_of_their_own(xt: Shop) -> None:
    settings = xt.bring("xt_config.yaml")
    found = docker(settings, "mine")
    assert (found.whole, found.sing_wrap, found.post_sing_steps) == (
        "reg.invalid/me/env:1",
        True,
        ("RUN pip install x",),
    )
    assert (found.username, found.password) == ("me", "${secret:registry-password}")
    assert (found.sha256 or "").startswith("0a1b2c3d")


def test_images_that_cannot_be_carried_as_they_are(shop: Shop) -> None:
    text = XT.replace('registry: "registry", image', 'registry: "gone", image').replace(
        "0a1b2c3d4e5f", "0a1b"
    )
    shop.put("xt_config.yaml", text)
    plan = shop.plan("xt_config.yaml")
    assert tree(plan)["dockers"]["mine"] == {
        "image": "me/env:1",
        "post_sing_steps": ["RUN pip install x"],
        "sing_wrap": True,
    }
    found = fates(plan)
    assert found["dockers.mine.sha256"].why == "it is no digest: 64 hexadecimal digits"
    assert "`gone`" in found["dockers.mine.registry"].why
    assert found["external-services.registry.password"].outcome is Outcome.DROPPED
    assert "dummy-registry-pw" not in repr(plan)


def test_boxes_become_machines_and_local_is_local(xt: Shop) -> None:
    written = tree(xt.plan("xt_config.yaml"))
    assert written["targets"]["lab"]["hosts"] == ["me@box-one", "me@box-two"]
    assert written["targets"]["local"]["kind"] == "local"
    assert [*written["targets"]] == ["local", "lab", "eus-v100", "aml-low"]


def test_what_is_written_loads(xt: Shop) -> None:
    settings = xt.bring("xt_config.yaml")
    assert settings.default_target == "local"
    assert settings.store("xtstorage").url == "az://ws1@xtstorage/gofer"
    assert settings.store("filestorage").url == "file:///srv/xt/file_store/gofer"
    assert folders_of(settings, "eus-v100")["mnist"].mode == "copy"
    assert settings.ignore == (".git", "__pycache__")


def test_secrets_are_asked_for_by_where_they_are(xt: Shop) -> None:
    plan = xt.plan("xt_config.yaml")
    assert [one.name for one in plan.secrets] == ["xtstorage-key", "registry-password", "HF_TOKEN"]
    assert plan.secrets[0].where == "XT's key vault"
    assert "dummy-registry-pw" not in repr(plan)
    assert "dummy-hf-token-value" not in repr(plan)


def test_a_secret_that_is_dropped_does_not_come_back_elsewhere(xt: Shop) -> None:
    text = XT.replace('mongo-connection-string: "$vault"', 'mongo-connection-string: "mongodb://dummy:pw@h"')
    xt.put("xt_config.yaml", text.replace('MODE: "fast"', 'WHERE: "mongodb://dummy:pw@h/x"'))
    plan = xt.plan("xt_config.yaml")
    assert tree(plan)["targets"]["lab"]["job"]["env"]["WHERE"] == "***/x"
    assert any("a secret stood in a text" in note for note in plan.notes)


def test_fates(xt: Shop) -> None:
    found = fates(xt.plan("xt_config.yaml"))
    assert not [one for one in found.values() if one.outcome is Outcome.UNKNOWN]
    assert found["compute-targets.batch-gpu.vm-size"].why == "gofer has no kind of target for Azure Batch"
    assert found["dockers.mine.sha256"].to == "dockers.mine.sha256"
    assert found["general.env-vars.MODE"].outcome is Outcome.CARRIED
    assert found["external-services.registry.login-server"].to == "dockers.mine.registry"
    assert found["compute-targets.eus-v100.docker"].to == "targets.eus-v100.image"
    assert found["model.model-share-path"].why == "no folder is mounted or copied"
    assert found["xt-services.target"].to == "target"
    assert found["hyperparameter-search.search-type"].outcome is Outcome.DROPPED


def test_what_a_compute_decides_itself_is_not_carried(xt: Shop) -> None:
    plan = xt.plan("xt_config.yaml")
    target = tree(plan)["targets"]["aml-low"]
    assert target["compute"] == "cpu4"
    assert not {"instance_type", "preemptible"} & target.keys()
    found = fates(plan)
    assert found["compute-targets.aml-low.vm-size"].why == "the compute itself decides it"
    assert "sync: ['*']" in found["compute-targets.aml-low.low-pri"].why


def test_the_newer_stores_and_an_unknown_service(shop: Shop) -> None:
    text = XT.replace('    storage: "xtstorage"\n', "").replace(
        "xt-services:\n", "store: main\nxt-services:\n"
    )
    text += "stores:\n    main: {storage: xtstorage, database: mongodb, vault: xtvault, target: local}\n"
    shop.put("xt_config.yaml", text.replace('service: "sandboxaml"', 'service: "gone"'))
    plan = shop.plan("xt_config.yaml")
    assert tree(plan)["targets"]["lab"]["store"] == "xtstorage"
    found = fates(plan)
    assert found["stores.main.storage"].to == "stores.xtstorage"
    assert (
        found["compute-targets.aml-low.compute"].why == "the service `gone` is not among `external-services`"
    )
    assert found["external-services.sandboxaml.resource-group"].why == "no target that is carried uses it"


def test_one_name_for_many_targets_is_refused(xt: Shop) -> None:
    with pytest.raises(ConfigError, match="the file has 5 targets, and `--as` names one"):
        xt.plan("xt_config.yaml", name="x")


def test_a_target_that_has_become_a_comment_is_no_default(xt: Shop) -> None:
    xt.put("xt_config.yaml", XT.replace('target: "local"', 'target: "batch-gpu"'))
    plan = xt.plan("xt_config.yaml")
    assert "target" not in tree(plan)
    assert fates(plan)["xt-services.target"].why == "the target `batch-gpu` is not carried"
