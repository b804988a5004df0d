"""Philly's files: what is left of them goes to a target that the person names."""

from __future__ import annotations

import pytest
from unit.importers.printed import ACCOUNT, CLUSTERS, PHILLY, TWO_BLOBS
from unit.importers.shop import Shop, fates, text_of, tree

from gofer.config.folders import folders_of
from gofer.errors import ConfigError
from gofer.importers.keys import KeyOutcome

FILE = "aux_data/configs/philly_vc.yaml"


@pytest.fixture
def philly(shop: Shop) -> Shop:
    shop.put(FILE, PHILLY)
    shop.put("aux_data/configs/two.yaml", TWO_BLOBS)
    shop.put("aux_data/configs/multi_philly_vc.yaml", CLUSTERS)
    shop.put("aux_data/configs/vigeastblob_account.yaml", ACCOUNT)
    shop.put(
        "aux_data/configs/vigblob_account.yaml",
        ACCOUNT.replace("container_name: xxxx", "container_name: far"),
    )
    return shop


def test_it_needs_a_name(philly: Shop) -> None:
    with pytest.raises(ConfigError) as caught:
        philly.plan(FILE)
    assert caught.value.hint == "name it: `gofer config import FILE --as NAME`"


def test_its_folders_and_defaults_join_a_target_that_is_there(philly: Shop) -> None:
    philly.put("gofer.yaml", "# mine\ntargets:\n  lab: {kind: ssh, hosts: [me@box]}  # the lab's box\n")
    settings = philly.bring(FILE, name="lab")
    text = (philly.folder / "gofer.yaml").read_text()
    assert text.startswith("# mine\ntargets:\n  lab: {kind: ssh, hosts: [me@box], folders: {")
    assert "}  # the lab's box\n" in text
    folders = {name: (one.store, one.path) for name, one in folders_of(settings, "lab").items()}
    assert folders == {
        "data": ("vigeastblob_account", "jianfw/data/qd_data"),
        "models": ("vigeastblob_account", "jianfw/work/qd_models"),
        "output": ("vigeastblob_account", "jianfw/work/qd_output"),
    }
    assert settings.target("lab").job is not None


def test_its_set_up_comes_along_unless_the_target_has_one(philly: Shop) -> None:
    philly.put("gofer.yaml", "targets:\n  lab: {kind: ssh, hosts: [me@box]}\n")
    plan = philly.plan(FILE, name="lab")
    script = tree(plan)["targets"]["lab"]["job"]["setup"]
    assert "-m pip install --disable-pip-version-check -r requirements.txt" in script
    assert "./compile.philly.sh" in script
    assert "sudo" not in script
    assert any("without `targets.lab.job.setup` they do not" in note for note in plan.notes)
    own = "targets:\n  lab: {kind: ssh, hosts: [me@box], job: {setup: make deps}}\n"
    philly.put("gofer.yaml", own)
    plan = philly.plan(FILE, name="lab")
    assert tree(plan)["targets"]["lab"]["job"] == {
        "setup": "make deps",
        "rank_variables": "mpirun",
        "multi_process": True,
        "gpus": 4,
    }
    assert "`lab` keeps the set-up of gofer.yaml; that of the older tool is left out" in plan.notes
    assert not any("they do not" in note for note in plan.notes)


def test_a_target_without_a_kind_is_a_comment(philly: Shop) -> None:
    plan = philly.plan(FILE, name="new")
    assert tree(plan)["targets"] is None
    assert "  # Not in use: it has no kind yet; give it one\n  # new:\n  #   folders:\n" in text_of(plan)
    assert any(
        note.startswith("Philly is gone: cluster, virtual cluster, login and image") for note in plan.notes
    )


def test_every_key_has_a_fate(philly: Shop) -> None:
    plan = philly.plan(FILE, name="lab")
    found = fates(plan, "philly_vc.yaml")
    assert not [one for one in found.values() if one.outcome is KeyOutcome.UNKNOWN]
    dropped = {key for key, one in found.items() if one.outcome is KeyOutcome.DROPPED}
    assert dropped == {
        "vc", "cluster", "user_name", "password", "blob_mount_point", "docker.image", "docker.tag",
    }  # fmt: skip
    assert found["config_param.data_folder"].to == "targets.lab.folders.data"
    assert found["config_param.code_path"].to == "targets.lab.store"


def test_two_blobs_and_the_list_of_clusters(philly: Shop) -> None:
    plan = philly.plan("aux_data/configs/two.yaml", "aux_data/configs/multi_philly_vc.yaml", name="local")
    folders = tree(plan)["targets"]["local"]["folders"]
    assert folders["data"] == {
        "store": "vigblob_account", "path": "jianfw/data/qd_data", "read_only": True,
        "options": ["log-level=NOTICE"],
    }  # fmt: skip
    options = ["attr-timeout=240s", "vfs-cache-max-age=10000000s", "vfs-cache-mode=full"]
    assert folders["output"] == {
        "store": "vigeastblob_account", "path": "jianfw/work/qd_output", "options": options,
    }  # fmt: skip
    found = fates(plan)
    first = found["blob_mount_info[0].blob_fuse_options"]
    assert first.outcome is KeyOutcome.CHANGED
    assert "left out: `allow_other`: only the run's own user" in first.why
    assert found["blob_mount_info[1].blob_fuse_options"].to == "targets.local.folders"
    assert "`read_only`" in found["config_param.data_folder"].why
    assert (found["clusters"].outcome, found["clusters"].to) == (KeyOutcome.CHANGED, "target_groups.philly")
    assert tree(plan)["target_groups"] == {"philly": ["wu1", "sc2"]}


@pytest.mark.parametrize(
    ("options", "read_only"),
    [
        ("['-o', ro]", True),
        ("['-o=ro']", True),
        ("['-oro']", True),
        ("['-o', 'allow_other,ro,attr_timeout=240']", True),
        ("'-o allow_other -o ro'", True),
        ("['-o', rw]", False),
        ("['-o', 'root=1', '--log-level=ro']", False),
        ("[ro]", False),
        ("['-o']", False),
    ],
)
def test_a_blob_that_was_mounted_to_be_read(philly: Shop, options: str, read_only: bool) -> None:
    philly.put(FILE, f"{PHILLY}blob_fuse_options: {options}\n")
    plan = philly.plan(FILE, name="local")
    folders = tree(plan)["targets"]["local"]["folders"]
    assert [one.get("read_only", False) for one in folders.values()] == [read_only] * 3
    found = fates(plan)["blob_fuse_options"]
    assert found.outcome is (KeyOutcome.CHANGED if read_only else KeyOutcome.DROPPED)
    assert not (read_only and "left out: `ro`" in found.why)


def test_read_only_is_an_option_of_folders_only(philly: Shop) -> None:
    text = TWO_BLOBS.replace("/data_blob/jianfw", "/blob/jianfw")
    philly.put("aux_data/configs/two.yaml", text)
    plan = philly.plan("aux_data/configs/two.yaml", name="local")
    assert fates(plan)["blob_mount_info[1].blob_fuse_options"].outcome is KeyOutcome.DROPPED


def test_a_new_target_keeps_its_runs_in_the_account_of_the_code(philly: Shop) -> None:
    plan = philly.plan(FILE, name="new")
    assert "  #   store: vigeastblob_account-gofer\n" in text_of(plan)
    assert tree(plan)["stores"]["vigeastblob_account-gofer"]["url"] == "az://xxxx/jianfw/gofer"


def test_a_target_on_azure_that_has_no_store_gets_it_too(philly: Shop) -> None:
    philly.put("gofer.yaml", "targets:\n  wu1: {kind: azureml, compute: c}\n")
    assert philly.bring(FILE, name="wu1").target("wu1").store == "vigeastblob_account-gofer"


@pytest.mark.parametrize("entry", ["{kind: azureml, store: mine}", "{kind: ssh, hosts: [me@box]}"])
def test_a_target_that_has_a_store_or_needs_none_keeps_it(philly: Shop, entry: str) -> None:
    philly.put("gofer.yaml", f"targets:\n  lab: {entry}\nstores:\n  mine: {{url: 'az://x', account: y}}\n")
    plan = philly.plan(FILE, name="lab")
    written = tree(plan)
    assert written["targets"]["lab"].get("store") == ("mine" if "store" in entry else None)
    assert [*written["stores"]] == ["mine", "vigeastblob_account"]
    found = fates(plan, "philly_vc.yaml")["config_param.code_path"]
    assert found.outcome is KeyOutcome.DROPPED
    assert not any("could be kept" in note for note in plan.notes)


def test_a_file_without_an_account_says_how_to_get_a_store(philly: Shop) -> None:
    philly.put(FILE, PHILLY.replace("/blob/", "/hdfs/"))
    plan = philly.plan(FILE, name="new")
    (note,) = [one for one in plan.notes if "begins with `az://`" in one]
    assert "`store: NAME` into the target `new`" in note
    # An account that runs could only read is none to keep them in; one that they wrote to is.
    for point, store in (("/data_blob", None), ("/blob", "vigeastblob_account-gofer")):
        text = TWO_BLOBS.replace("/blob/jianfw", "/hdfs/jianfw").replace(
            "/data_blob/jianfw", f"{point}/jianfw"
        )
        philly.put("aux_data/configs/two.yaml", text)
        plan = philly.plan("aux_data/configs/two.yaml", name="new")
        assert (f"store: {store}" in text_of(plan)) == (store is not None)
        assert fates(plan, "two.yaml")["config_param.code_path"].outcome is KeyOutcome.DROPPED


LIST = "aux_data/configs/multi_philly_vc.yaml"


@pytest.mark.parametrize(("name", "group"), [(None, "philly"), ("ours", "ours")])
def test_a_list_of_clusters_alone_is_a_group_of_targets(philly: Shop, name: str | None, group: str) -> None:
    philly.put("gofer.yaml", "targets:\n  wu1: {kind: ssh, hosts: [me@box]}\n")
    plan = philly.plan(LIST, name=name)
    assert plan.notes == [f"the group `{group}` has `sc2`, which is no target yet: `gofer target add sc2`"]
    settings = philly.bring(LIST, name=name)
    assert settings.targets_of(group) == ("wu1", "sc2")
    assert settings.targets_of("wu1") == ("wu1",)
    assert philly.plan(LIST, name=name).texts == {}


def test_with_the_list_the_settings_go_to_each_target_of_it(philly: Shop) -> None:
    kind = "{kind: azureml, compute: c}"
    philly.put("gofer.yaml", f"targets:\n  wu1: {kind}\n  sc2: {kind}\n")
    plan = philly.plan(FILE, LIST)
    written = tree(plan)
    assert written["targets"]["wu1"] == written["targets"]["sc2"]
    assert written["targets"]["sc2"]["folders"]["data"]["path"] == "jianfw/data/qd_data"
    assert written["targets"]["sc2"]["job"]["gpus"] == 4
    found = fates(plan, "philly_vc.yaml")
    both = "targets.wu1.{0}, targets.sc2.{0}"
    assert found["multi_process"].to == both.format("job.multi_process")
    assert found["config_param.data_folder"].to == both.format("folders.data")
    assert any(note.endswith("go to the targets `wu1`, `sc2`") for note in plan.notes)


def test_a_list_with_one_cluster_left_out_is_a_group_of_the_other(philly: Shop) -> None:
    philly.put(LIST, "clusters:\n    - sc2\n")
    plan = philly.plan(FILE, LIST)
    assert "# sc2:" in text_of(plan) and "wu1" not in text_of(plan)
    assert tree(plan)["target_groups"] == {"philly": ["sc2"]}
    philly.put(LIST, "clusters: []\n")
    assert philly.plan(LIST).texts == {}


def test_a_target_called_as_the_group_leaves_the_group_another_name(philly: Shop) -> None:
    assert tree(philly.plan(FILE, LIST, name="philly"))["target_groups"] == {
        "philly-clusters": ["wu1", "sc2"]
    }
    philly.put("gofer.yaml", "targets:\n  philly: {kind: local}\n")
    with pytest.raises(ConfigError, match=r"`target_groups.philly`: there is a target `philly` too"):
        philly.plan(LIST)


def test_paths_that_lie_nowhere_and_keys_of_nobody(philly: Shop) -> None:
    text = PHILLY.replace("/blob/jianfw/data", "/hdfs/input/jianfw/data").replace(
        "/blob/jianfw/work/qd_o", "/blobs/o"
    )
    philly.put(FILE, f"{text}num_gpu: 8\nzz: 1\n".replace("password: null", "password: dummy-password-1"))
    plan = philly.plan(FILE, name="local")
    found = fates(plan)
    assert "Philly's own file system" in found["config_param.data_folder"].why
    assert found["config_param.output_folder"].why == "it lies below no mount point"
    assert found["zz"].outcome is KeyOutcome.UNKNOWN
    job = tree(plan)["targets"]["local"]["job"]
    assert (job["multi_process"], job["gpus"]) == (True, 8)
    assert "dummy-password-1" not in repr(plan)
    (why,) = {found.why for found in plan.findings if found.key == "password"}
    assert "neither this nor `PHILLY_PASSWORD` is needed" in why
