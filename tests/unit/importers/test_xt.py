"""XT's settings: its targets, what they name, and every other key with a reason."""

from __future__ import annotations

import msgspec
import pytest
from unit.importers.printed import XT
from unit.importers.shop import WITHOUT, Shop, fates, tree

from gofer.config.dockers import docker
from gofer.config.folders import folders_of
from gofer.errors import ConfigError
from gofer.importers.keys import KeyOutcome


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
        "gpus_per_node": 1,
        "image": "mine",
        "experiment": "exper1",
        "store": "xtstorage",
        "job": {
            "time_limit": "7200s",
            "nodes": 2,
            "setup": "conda install -y numpy\npython -m pip install xtlib==0.0.264 'a b'\n",
            "env": {"MODE": "fast", "HF_TOKEN": "${secret:HF_TOKEN}", "XT_DATA_DIR": "./mnist"},
        },
        "folders": {"mnist": {"store": "xtstorage-data", "path": "mnist", "mode": "copy"}},
    }


def test_images_go_to_a_section_of_their_own(xt: Shop) -> None:
    settings = xt.bring("xt_config.yaml")
    found = docker(settings, "mine")
    assert (found.full_name, found.sing_wrap, found.post_sing_steps) == (
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
    assert found["external-services.registry.password"].outcome is KeyOutcome.DROPPED
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


def test_secrets_are_requested_with_their_place(xt: Shop) -> None:
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
    assert not [one for one in found.values() if one.outcome is KeyOutcome.UNKNOWN]
    assert found["compute-targets.batch-gpu.vm-size"].why == "gofer has no kind of target for Azure Batch"
    assert found["dockers.mine.sha256"].to == "dockers.mine.sha256"
    assert found["general.env-vars.MODE"].outcome is KeyOutcome.CARRIED
    assert found["external-services.registry.login-server"].to == "dockers.mine.registry"
    assert found["compute-targets.eus-v100.docker"].to == "targets.eus-v100.image"
    assert found["model.model-share-path"].why == "no folder is mounted or copied"
    assert found["xt-services.target"].to == "target"
    assert found["hyperparameter-search.search-type"].outcome is KeyOutcome.DROPPED


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


MOUNTED = XT.replace('data-action: "download"', 'data-action: "mount"')


@pytest.mark.parametrize(
    ("text", "extra", "why"),
    [
        (MOUNTED, {"mode": "mount", "read_only": True}, "`true`: runs may only read it"),
        (MOUNTED.replace("    data-writable: false\n", ""), {"mode": "mount", "read_only": True}, None),
        (
            MOUNTED.replace("data-writable: false", "data-writable: true"),
            {"mode": "mount"},
            "true is gofer's default",
        ),
        (XT, {"mode": "copy"}, "a copy is the run's own, and nothing of it goes back to the store"),
    ],
    ids=["false", "absent", "true", "copied"],
)
def test_a_mounted_folder_is_read_only_by_default(
    shop: Shop, text: str, extra: dict[str, object], why: str | None
) -> None:
    shop.put("xt_config.yaml", text)
    plan = shop.plan("xt_config.yaml")
    folder = tree(plan)["targets"]["eus-v100"]["folders"]["mnist"]
    assert folder == {"store": "xtstorage-data", "path": "mnist", **extra}
    assert why is None or fates(plan)["data.data-writable"].why == why


def test_the_models_of_a_run_too(shop: Shop) -> None:
    text = XT.replace('model-share-path: ""', 'model-share-path: "nets"').replace(
        'model-action: "none"', 'model-action: "mount"'
    )
    shop.put("xt_config.yaml", text)
    plan = shop.plan("xt_config.yaml")
    assert tree(plan)["targets"]["lab"]["folders"]["model"]["read_only"] is True
    assert fates(plan)["model.model-writable"].to == "targets.*.folders.model.read_only"


BARE = XT.replace('vm-size: "ND40_v2g1"', 'vm-size: "ND96amr_A100_v4"').replace(
    ' sla: "premium", setup: "aml", docker: "mine"}', " low-pri: true}"
)


def test_a_target_on_singularity_that_says_little(shop: Shop) -> None:
    shop.put("xt_config.yaml", BARE)
    plan = shop.plan("xt_config.yaml")
    target = tree(plan)["targets"]["eus-v100"]
    assert target["sla"] == "basic"
    assert not {"gpus_per_node", "image", "preemptible"} & target.keys()
    messages = [note for note in plan.notes if "the target `eus-v100` " in note]
    assert messages == [
        "the target `eus-v100` has XT's own tier, `basic`, since it names none",
        "the target `eus-v100` does not say how many GPUs a node has, and `-n` needs it: `gofer target show "
        "eus-v100` lists its instance types with their GPUs; set `targets.eus-v100.gpus_per_node`",
        "the target `eus-v100` names no image: its runs get Singularity's default image, as with XT; "
        "`targets.eus-v100.image_version` names another of Singularity's own",
    ]
    assert fates(plan)["compute-targets.eus-v100.low-pri"].why == "`sla` says it"


def test_the_name_of_an_instance_type_may_say_how_many_gpus_there_are(xt: Shop) -> None:
    plan = xt.plan("xt_config.yaml")
    assert fates(plan)["compute-targets.eus-v100.vm-size"].to == (
        "targets.eus-v100.instance_type, targets.eus-v100.gpus_per_node"
    )
    assert "gpus_per_node" not in tree(plan)["targets"]["aml-low"]
    assert not [note for note in plan.notes if "`eus-v100`" in note]
    assert any("show aml-low` lists what its machines are" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("record", "script"),
    [
        (
            "{pip-packages: ['xtlib==*', b], conda-packages: ['c==*'], pre-cmds: [one], post-cmds: [two]}",
            "one\nconda install -y c\npython -m pip install xtlib b\ntwo\n",
        ),
        (
            '{pip-packages: ["a"], other-cmds: {pre: ["one", "one b"], post: ["two"]}}',
            "one\none b\npython -m pip install a\ntwo\n",
        ),
        ('{pip-packages: ["a"], other-cmds: ["two"]}', "python -m pip install a\ntwo\n"),
        ('{other-cmds: {pre: "one"}}', "one\n"),
    ],
)
def test_a_set_up_keeps_its_order(shop: Shop, record: str, script: str) -> None:
    old = XT[XT.index("    aml: {activate: null") :].partition("\n")[0]
    shop.put("xt_config.yaml", XT.replace(old, f"    aml: {record}"))
    plan = shop.plan("xt_config.yaml")
    assert tree(plan)["targets"]["eus-v100"]["job"]["setup"] == script
    assert not [one.key for one in plan.findings if one.outcome is KeyOutcome.UNKNOWN]


def test_a_local_file_with_a_few_sections(shop: Shop) -> None:
    shop.put("xt_config.yaml", "general: {username: me}\ncode: {code-omit: [tmp]}\ninternal: {}\n")
    plan = shop.plan("xt_config.yaml")
    assert tree(plan) == {"ignore": ["tmp"]}
    assert fates(plan)["general.username"].outcome is KeyOutcome.DROPPED
    shop.put("other.yaml", "data: {a: 1}\n")
    with pytest.raises(ConfigError, match="no file of a tool"):
        shop.plan("other.yaml")


def test_shares_that_are_called_alike_are_two_folders(shop: Shop) -> None:
    text = XT.replace('model-share-path: ""', 'model-share-path: "nets"').replace(
        'model-action: "none"', 'model-action: "mount"'
    )
    shop.put("xt_config.yaml", text.replace('model-local: ""', 'model-local: "~/nets/mnist/"'))
    folders = tree(shop.plan("xt_config.yaml"))["targets"]["lab"]["folders"]
    assert {name: one["path"] for name, one in folders.items()} == {"mnist": "mnist", "mnist-model": "nets"}


def test_shares_are_those_of_xts_targets_alone(act: Shop) -> None:
    act.put("xt_config.yaml", XT)
    targets = tree(act.plan("aux_data/aml/aml.yaml", "xt_config.yaml"))["targets"]
    assert "mnist" in targets["lab"]["folders"]
    assert [*targets["aml"]["folders"]] == ["data", "output"]


def test_a_share_without_an_account_says_so(shop: Shop) -> None:
    shop.put("xt_config.yaml", XT.replace('    storage: "xtstorage"\n', '    storage: "filestorage"\n'))
    found = fates(shop.plan("xt_config.yaml"))
    assert "the storage that XT uses names none" in found["data.data-share-path"].why
    assert found["model.model-action"].why == "no folder is mounted or copied"


def test_shares_lie_in_containers_of_their_own(shop: Shop) -> None:
    text = XT.replace('model-share-path: ""', 'model-share-path: "nets"').replace(
        'model-action: "none"', 'model-action: "mount"'
    )
    shop.put("xt_config.yaml", text)
    plan = shop.plan("xt_config.yaml")
    stores = tree(plan)["stores"]
    assert stores["xtstorage-data"]["url"] == "az://00-share-data"
    assert stores["xtstorage-model"]["url"] == "az://00-share-models"
    env = tree(plan)["targets"]["lab"]["job"]["env"]
    assert (env["XT_DATA_DIR"], env["XT_MODEL_DIR"]) == ("./mnist", "./model")
    assert "`$XT_DATA_DIR` is `./mnist`" in fates(plan)["data.data-local"].why
    assert any("`xts-data-xts`: check `stores.xtstorage-data.url`" in note for note in plan.notes)


def test_the_name_of_the_user_is_written_out(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "alice")
    text = XT.replace('workspace: "ws1"', 'workspace: "ws-$username"').replace("exper1", "$username-${env:X}")
    text = text.replace('MODE: "fast"', 'MODE: "$username", OTHER: "$usernames"')
    shop.put("xt_config.yaml", text.replace("me@box-one", "$username@b"))
    plan = shop.plan("xt_config.yaml")
    written = tree(plan)
    assert written["stores"]["xtstorage"]["url"] == "az://ws-alice/gofer"
    assert written["targets"]["eus-v100"]["experiment"] == "alice-$${env:X}"
    assert written["targets"]["lab"]["hosts"][0] == "alice@b"
    assert written["targets"]["lab"]["job"]["env"] == {
        "MODE": "alice",
        "OTHER": "$usernames",
        "HF_TOKEN": "${secret:HF_TOKEN}",
        "XT_DATA_DIR": "./mnist",
    }
    (note,) = [one for one in plan.notes if "`$username`" in one]
    assert note.startswith("XT's `$username` is written out as `alice`")


def test_nodes_of_xt_worked_apart(xt: Shop) -> None:
    found = fates(xt.plan("xt_config.yaml"))
    assert found["compute-targets.aml-low.nodes"].outcome is KeyOutcome.CARRIED
    assert found["compute-targets.eus-v100.nodes"].outcome is KeyOutcome.CHANGED
    assert "XT ran the script on each by itself" in found["compute-targets.eus-v100.nodes"].why


def test_entries_without_a_target_are_still_recognized(shop: Shop) -> None:
    shop.put("xt_config.yaml", "general: {env-vars: {A: b}}\nxt-services: {storage: gone}\n")
    found = fates(shop.plan("xt_config.yaml"))
    assert found["general.env-vars.A"].why == "no target is carried"
    assert found["xt-services.storage"].outcome is KeyOutcome.DROPPED
    assert "no storage of `external-services`" in found["xt-services.storage"].why


def test_without_a_storage_a_note_says_what_a_target_needs(shop: Shop) -> None:
    shop.put("xt_config.yaml", XT.replace('    storage: "xtstorage"\n', "    storage: null\n"))
    plan = shop.plan("xt_config.yaml")
    assert "store" not in tree(plan)["targets"]["eus-v100"]
    messages = [note for note in plan.notes if "begins with `az://`" in note]
    assert [note.rpartition("into the target ")[2] for note in messages] == ["`eus-v100`", "`aml-low`"]


NEWER = XT.replace('    storage: "xtstorage"\n', "").replace(
    '    target: "local"                    # our default compute target\n', ""
)
STORES = """\
store: main
stores:
    main: {storage: xtstorage, database: mongodb, vault: xtvault, target: eus-v100}
    other: {storage: filestorage, target: lab}
"""


def test_newer_builds_have_the_default_target_with_the_store(shop: Shop) -> None:
    shop.put("xt_config.yaml", NEWER + STORES)
    plan = shop.plan("xt_config.yaml")
    assert (tree(plan)["target"], tree(plan)["targets"]["lab"]["store"]) == ("eus-v100", "xtstorage")
    found = fates(plan)
    assert found["stores.main.target"].to == "target"
    assert found["stores.other.target"].outcome is KeyOutcome.DROPPED
    shop.put("xt_config.yaml", NEWER.replace("xt-services:\n", "xt-services:\n    target: lab\n") + STORES)
    assert tree(shop.plan("xt_config.yaml"))["target"] == "lab"
    shop.put("xt_config.yaml", NEWER + STORES.replace("store: main\n", ""))
    assert "target" not in tree(shop.plan("xt_config.yaml"))


def test_a_registry_is_named_by_its_user_often(shop: Shop) -> None:
    text = XT.replace(
        'login-server: "reg.invalid", username: "me"',
        'login-server: "teamregistry.azurecr.io", username: "teamregistry", login: true',
    )
    text = text.replace("dockers:\n", 'dockers:\n    hub: {registry: "", image: "me/other:1"}\n')
    shop.put("xt_config.yaml", text)
    plan = shop.plan("xt_config.yaml")
    written = tree(plan)["dockers"]
    assert written["hub"] == {"image": "me/other:1"}
    assert (written["mine"]["registry"], written["mine"]["username"]) == (
        "teamregistry.azurecr.io",
        "teamregistry",
    )
    found = fates(plan)
    assert found["dockers.hub.registry"].why == "an empty one means Docker Hub, which is gofer's default"
    assert found["external-services.registry.login"].why == (
        "`username` and `password` say whether to sign in"
    )
    assert "dummy-registry-pw" not in repr(plan)


def test_what_targets_share_goes_to_all_of_them(shop: Shop) -> None:
    near = '    near: {service: "msrresrchws", compute: "vc", vm-size: "ND12_v2g4", setup: "aml"}\n'
    shop.put("xt_config.yaml", XT.replace("compute-targets:\n", f"compute-targets:\n{near}"))
    found = fates(shop.plan("xt_config.yaml"))
    assert found["external-services.msrresrchws.subscription-id"].to == (
        "targets.near.subscription_id, targets.eus-v100.subscription_id"
    )
    assert found["general.experiment"].to == (
        "targets.near.experiment, targets.eus-v100.experiment, targets.aml-low.experiment"
    )
    everywhere = ["near", "local", "lab", "eus-v100", "aml-low"]
    assert found["general.env-vars.MODE"].to == ", ".join(f"targets.{one}.job.env.MODE" for one in everywhere)
    assert found["general.env-vars.HF_TOKEN"].to.count("HF_TOKEN") == 5
    assert found["setups.aml.pip-packages"].to == (
        "targets.near.job.setup, targets.lab.job.setup, targets.eus-v100.job.setup"
    )


class Lesser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of that name that knows no experiments."""

    platform: str = "aml"


def test_what_no_target_got_in_the_end_is_dropped(xt: Shop) -> None:
    found = fates(xt.plan("xt_config.yaml", kinds={**WITHOUT, "azureml": Lesser}))
    assert found["general.experiment"].outcome is KeyOutcome.DROPPED
    assert "has no `experiment` here" in found["general.experiment"].why
    assert found["compute-targets.eus-v100.vm-size"].to == ""


@pytest.mark.parametrize("text", ["locations: []", "locations: ''"])
def test_empty_files_are_reported(shop: Shop, text: str) -> None:
    text = XT.replace('location: "eastus"', text).replace('vm-size: "ND40_v2g1"', 'vm-size: ""')
    shop.put("xt_config.yaml", f"{text}stores: {{}}\n")
    found = fates(shop.plan("xt_config.yaml"))
    assert found["compute-targets.eus-v100.vm-size"].why == "it is empty"
    assert found["stores"].why == "it is empty"
    assert found["compute-targets.eus-v100.locations"].why == "it is empty"


def test_one_name_for_many_targets_is_refused(xt: Shop) -> None:
    with pytest.raises(ConfigError, match="the file has 5 targets, and `--as` names one"):
        xt.plan("xt_config.yaml", name="x")


def test_a_target_that_has_become_a_comment_is_no_default(xt: Shop) -> None:
    xt.put("xt_config.yaml", XT.replace('target: "local"', 'target: "batch-gpu"'))
    plan = xt.plan("xt_config.yaml")
    assert "target" not in tree(plan)
    assert fates(plan)["xt-services.target"].why == "the target `batch-gpu` is not carried"
