"""`aux_data/aml/NAME.yaml` with what it names: the printed files, older and newer keys, files that build on
others.
"""

from __future__ import annotations

import msgspec
import pytest
from unit.importers.printed import ACCOUNT, CLUSTER
from unit.importers.shop import WITHOUT, Shop, fates, text_of, tree

from gofer.config.folders import folders_of
from gofer.errors import ConfigError
from gofer.importers.keys import KeyOutcome


class Lesser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of that name that knows less."""

    platform: str = "aml"


WRITTEN = """\
target: aml
targets:
  aml:
    kind: azureml
    subscription_id: xxxx
    resource_group: xxxxx
    workspace: xxxxx
    compute: NC24RSV3
    image: amsword/setup:py36pt16
    experiment: experiment_name
    gpus_per_node: 4
    store: vigeastblob_account-gofer
    folders:
      data:
        store: vigeastblob_account
        path: path/to/data
      output:
        store: vigeastblob_account
        path: path/to/output
    ignore:
    - /assets/
    - /output/
    - /data/
    - /visualization/
    - wandb/
    - '*.so'
    - '*.o'
    - '**/*src/py-faster-rcnn/'
    - '**/*src/CMC/'
    job:
      gpus: 4
      rank_variables: mpirun
      multi_process: true
      env:
        NCCL_IB_DISABLE: '0'
      setup: |
        run() {
          folder=$1; shift; echo "+ $*"
          if [ -w "$folder" ] || ! sudo -n true 2>/dev/null; then "$@"
          else sudo -n -E env "PATH=$PATH" "$@"; fi
        }
        failed() {
          status=$?; echo "$1 failed; \\`gofer submit --setup ''\\` runs without it" >&2; exit "$status"
        }
        if [ -f requirements.txt ] && [ -z "${GOFER_PACKAGES_FILE:-}" ]; then
          python=$(command -v python || command -v python3)
          where='import sysconfig; print(sysconfig.get_path("purelib"))'
          packages=$("$python" -c "$where") || failed "$python"
          run "$packages" "$python" -m pip install --disable-pip-version-check -r requirements.txt \\
            || failed 'installing requirements.txt'
        fi
        if [ -f compile.aml.sh ]; then
          chmod +x compile.aml.sh
          run / ./compile.aml.sh ${ACT_COMPILE_ARGS:+"$ACT_COMPILE_ARGS"} || failed compile.aml.sh
        fi
stores:
  vigeastblob_account:
    url: az://xxxx
    account: xxxx
    key: ${secret:vigeastblob_account-key}
  vigeastblob_account-gofer:
    url: az://xxxx/path/gofer
    account: xxxx
    key: ${secret:vigeastblob_account-key}
"""


def test_the_files_as_the_document_prints_them(act: Shop) -> None:
    plan = act.plan("aux_data/aml/aml.yaml")
    assert text_of(plan) == WRITTEN
    assert [*plan.texts] == [act.folder / "gofer.yaml"]
    assert [(one.name, one.where.rpartition("/")[2]) for one in plan.secrets] == [
        ("vigeastblob_account-key", "vigeastblob_account.yaml:2")
    ]
    assert not [one for one in plan.findings if one.outcome is KeyOutcome.UNKNOWN]
    assert len(plan.findings) == 19 + 3 + 4


def test_what_is_written_loads_and_means_the_same(act: Shop) -> None:
    before = {name: (one.store, one.path) for name, one in folders_of(act.load(), "aml").items()}
    settings = act.bring("aux_data/aml/aml.yaml")
    assert settings.imported("aml") is None
    assert {name: (one.store, one.path) for name, one in folders_of(settings, "aml").items()} == before
    assert settings.target("aml").kind == "azureml"
    assert settings.store("vigeastblob_account").options.key == "${secret:vigeastblob_account-key}"


def test_the_fate_of_each_key(act: Shop) -> None:
    found = fates(act.plan("aux_data/aml/aml.yaml"))
    assert found["compute_target"].to == "targets.aml.compute"
    assert found["compute_target"].outcome is KeyOutcome.CARRIED
    assert found["account_key"].outcome is KeyOutcome.CHANGED
    assert "gofer secret set vigeastblob_account-key" in found["account_key"].why
    assert found["sas_token"].outcome is KeyOutcome.DROPPED
    assert found["config_param.code_path.path"].to == "targets.aml.store"
    assert (found["zip_options"].outcome, found["zip_options"].to) == (
        KeyOutcome.CHANGED,
        "targets.aml.ignore",
    )
    assert found["azure_blob_config_file"].why == "it says nothing"


def test_a_kind_that_is_not_there_becomes_a_comment(act: Shop) -> None:
    plan = act.plan("aux_data/aml/aml.yaml", kinds=WITHOUT)
    written = tree(plan)
    assert written["targets"] is None
    assert "target" not in written
    assert "  # aml:\n  #   kind: azureml\n" in text_of(plan)
    assert any("this release has no kind of target `azureml`" in note for note in plan.notes)


def test_an_option_that_the_kind_lacks_is_dropped_and_reported(act: Shop) -> None:
    act.put("aux_data/aml/aml.yaml", CLUSTER.replace("aks_compute: false", "aks_compute: true"))
    act.put("aux_data/aml/itp.yaml", "_base_: aml.yaml\npreemption_allowed: true\n")
    target = tree(act.plan("aux_data/aml/itp.yaml"))["targets"]["itp"]
    assert (target["platform"], target["preemptible"]) == ("itp", True)
    plan = act.plan("aux_data/aml/itp.yaml", kinds={**WITHOUT, "azureml": Lesser})
    assert tree(plan)["targets"]["itp"]["platform"] == "itp"
    assert "preemptible" not in tree(plan)["targets"]["itp"]
    fate = fates(plan)["preemption_allowed"]
    assert (fate.outcome, fate.to) == (KeyOutcome.DROPPED, "")
    assert "has no `preemptible`" in fate.why


def test_preemption_is_of_kubernetes_alone(act: Shop) -> None:
    act.put("aux_data/aml/low.yaml", f"{CLUSTER}preemption_allowed: true\n")
    plan = act.plan("aux_data/aml/low.yaml")
    assert "preemptible" not in tree(plan)["targets"]["low"]
    assert fates(plan)["preemption_allowed"].why == "it means nothing on the platform `aml`"


def test_singularity_of_later_versions(act: Shop) -> None:
    more = "platform: singularity\nsingularity_sla_tier: Basic\n"
    more += "singularity_instance_type: AISupercomputer.ND40rs_v2\n"
    act.put("aux_data/aml/sing.yaml", CLUSTER.replace("aks_compute: false\n", "") + more)
    target = tree(act.plan("aux_data/aml/sing.yaml"))["targets"]["sing"]
    assert (target["platform"], target["virtual_cluster"]) == ("singularity", "NC24RSV3")
    assert (target["instance_type"], target["sla"]) == ("ND40rs_v2", "basic")
    assert "compute" not in target


def test_the_tools_own_defaults_on_singularity(act: Shop) -> None:
    act.put("aux_data/aml/sing.yaml", f"{CLUSTER}platform: singularity\n")
    target = tree(act.plan("aux_data/aml/sing.yaml"))["targets"]["sing"]
    assert (target["instance_type"], target["sla"]) == ("ND96amr_A100_v4", "premium")


def test_a_platform_nobody_has(act: Shop) -> None:
    act.put("aux_data/aml/odd.yaml", "compute_target: x\nplatform: itpp\n")
    with pytest.raises(ConfigError) as caught:
        act.plan("aux_data/aml/odd.yaml")
    assert caught.value.message.endswith("odd.yaml:2: there is no platform `itpp`")


def test_what_a_file_builds_on_is_reported_too(act: Shop) -> None:
    act.put("aux_data/aml/c1.yaml", "_base_: ./aml.yaml\ngpu_per_node: 8\nenv: {MORE: x}\nnew_key: 1\n")
    plan = act.plan("aux_data/aml/c1.yaml")
    target = tree(plan)["targets"]["c1"]
    assert (target["gpus_per_node"], target["compute"]) == (8, "NC24RSV3")
    assert target["job"]["env"] == {"NCCL_IB_DISABLE": "0", "MORE": "x"}
    near, far = fates(plan, "c1.yaml"), fates(plan, "aml.yaml")
    assert near["_base_"].outcome is KeyOutcome.CHANGED
    assert near["new_key"].outcome is KeyOutcome.UNKNOWN
    assert far["gpu_per_node"].outcome is KeyOutcome.DROPPED
    assert "c1.yaml:2" in far["gpu_per_node"].why
    assert far["compute_target"].to == "targets.c1.compute"


def test_bases_in_a_circle(act: Shop) -> None:
    act.put("aux_data/aml/a.yaml", "_base_: b.yaml\n")
    act.put("aux_data/aml/b.yaml", "_base_: a.yaml\n")
    with pytest.raises(ConfigError, match="in a circle"):
        act.plan("aux_data/aml/a.yaml")


def test_without_a_file_all_of_the_project_or_that_of_the_variable(act: Shop) -> None:
    act.put("aux_data/aml/c2.yaml", CLUSTER)
    assert [*tree(act.plan())["targets"]] == ["aml", "c2"]
    assert [*tree(act.plan(AML_CONFIG_PATH="aux_data/aml/c2.yaml"))["targets"]] == ["c2"]


def test_another_name_and_a_workspace_written_out(act: Shop) -> None:
    inline = "aml_config: {subscription_id: s, resource_group: g, workspace_name: w}"
    act.put("aux_data/aml/aml.yaml", CLUSTER.replace("aml_config: aux_data/aml/config.json", inline))
    target = tree(act.plan("aux_data/aml/aml.yaml", name="eus"))["targets"]["eus"]
    assert (target["subscription_id"], target["resource_group"], target["workspace"]) == ("s", "g", "w")


def test_missing_files_are_reported_and_the_rest_is_imported(shop: Shop) -> None:
    shop.put("aux_data/aml/aml.yaml", CLUSTER)
    plan = shop.plan("aux_data/aml/aml.yaml")
    assert "stores" not in tree(plan)
    fate = fates(plan)["config_param.data_folder.path"]
    assert fate.outcome is KeyOutcome.DROPPED
    assert "vigeastblob_account.yaml`; write it and import again" in fate.why
    assert fates(plan)["aml_config"].outcome is KeyOutcome.DROPPED
    assert any("does not say which workspace it is in" in note for note in plan.notes)


def test_an_account_or_a_workspace_alone(act: Shop) -> None:
    act.put(
        "acct.yaml", ACCOUNT.replace("account_key: xxxx\n", "unheard: of\n").replace("?xxxx", "?sig=dummysig")
    )
    plan = act.plan("acct.yaml")
    assert tree(plan) == {
        "stores": {"acct": {"url": "az://xxxx", "account": "xxxx", "sas": "${secret:acct-sas}"}}
    }
    assert fates(plan)["unheard"].outcome is KeyOutcome.UNKNOWN
    plan = act.plan("aux_data/aml/config.json", name="eus")
    assert "compute" not in tree(plan)["targets"]["eus"]
    assert any("has no compute yet" in note for note in plan.notes)


def test_a_file_given_beside_the_one_that_names_it_is_taken_once(act: Shop) -> None:
    files = ("aux_data/configs/vigeastblob_account.yaml", "aux_data/aml/config.json", "aux_data/aml/aml.yaml")
    assert text_of(act.plan(*files)) == WRITTEN


def test_references_stay_and_secrets_in_variables_go(act: Shop) -> None:
    act.put(
        "aux_data/configs/vigeastblob_account.yaml",
        ACCOUNT.replace("account_key: xxxx", "account_key: ${env:K}"),
    )
    env = "env:\n   WANDB_API_KEY: dummy-wandb-key\n   HOME_DIR: ${HOME}\n   bad name: x\n"
    act.put("aux_data/aml/aml.yaml", CLUSTER.replace("env:\n", env, 1))
    plan = act.plan("aux_data/aml/aml.yaml")
    assert tree(plan)["stores"]["vigeastblob_account"]["key"] == "${env:K}"
    assert tree(plan)["targets"]["aml"]["job"]["env"] == {
        "WANDB_API_KEY": "${secret:WANDB_API_KEY}",
        "HOME_DIR": "${HOME}",
        "NCCL_IB_DISABLE": "0",
    }
    assert "dummy-wandb-key" not in repr(plan)
    assert fates(plan)["env.bad name"].outcome is KeyOutcome.DROPPED


def test_what_could_not_be_loaded_is_not_written(act: Shop) -> None:
    act.put("acct.yaml", "account_name: a\ncontainer_name: ${secret:box}\n")
    with pytest.raises(ConfigError) as caught:
        act.plan("acct.yaml")
    assert "what would be written cannot be read: " in caught.value.message
    assert "gofer.yaml:3: `stores.acct.url` must not hold a secret" in caught.value.message


REGISTRY = (
    "docker:\n    address: vigregistry.azurecr.io\n    username: vigregistry\n    password: dummy-pw-9\n"
)


@pytest.mark.parametrize(
    ("platform", "image", "meant", "why"),
    [
        ("aml", "setup:1", "vigregistry.azurecr.io/setup:1", "it stands before the image's name"),
        ("itp", "a/setup:1", "vigregistry.azurecr.io/a/setup:1", "it stands before the image's name"),
        (
            "aml",
            "vigregistry.azurecr.io/x:1",
            "vigregistry.azurecr.io/x:1",
            "the image's name begins with it",
        ),
        ("singularity", "a/x:1", "a/x:1", "Singularity takes an image by its whole name, with the registry"),
    ],
)
def test_the_address_of_a_registry(act: Shop, platform: str, image: str, meant: str, why: str) -> None:
    text = CLUSTER.replace("aks_compute: false\n", f"platform: {platform}\n").replace("docker:\n", REGISTRY)
    act.put("aux_data/aml/reg.yaml", text.replace("amsword/setup:py36pt16", image))
    plan = act.plan("aux_data/aml/reg.yaml")
    # The registry's user is often called as the registry, and is no secret.
    assert tree(plan)["targets"]["reg"]["image"] == meant
    found = fates(plan)
    assert found["docker.address"].why.startswith(why)
    assert (found["docker.image"].outcome is KeyOutcome.CHANGED) == (meant != image)
    assert found["docker.password"].outcome is KeyOutcome.DROPPED
    assert "dummy-pw-9" not in repr(plan)


def test_what_a_file_leaves_out_stays_out_for_its_target_alone(act: Shop) -> None:
    act.put(
        "aux_data/aml/c1.yaml", "_base_: aml.yaml\nzip_options: ['-x', '*/build/*', '-x', '*.ckpt', '-9']\n"
    )
    act.put("aux_data/aml/c2.yaml", "_base_: aml.yaml\nzip_options: []\n")
    plan = act.plan()
    assert "ignore" not in tree(plan)
    left_out = {name: target["ignore"] for name, target in tree(plan)["targets"].items()}
    never = ["/assets/", "/output/", "/data/", "/visualization/", "wandb/", "*.so", "*.o"]
    assert left_out["c1"] == [*never, "/*/**/build/", "*.ckpt"]
    assert left_out["c2"] == never
    assert f"`targets.c2.ignore` begins with what ACT itself never sent: {', '.join(never)}" in "".join(
        plan.notes
    )
    fate = fates(plan, "c1.yaml")["zip_options"]
    assert fate.to == "targets.c1.ignore"
    assert fate.why == (
        "patterns as in `.gitignore`; folders that are called as `*.ckpt` stay out too; "
        "no archive is made, so `-9` is left out"
    )
    settings = act.bring()
    assert settings.ignored("local") == ()
    assert settings.ignored("c2") == tuple(never)


def test_options_of_zip_without_folders_are_reported(act: Shop) -> None:
    act.put("aux_data/aml/c1.yaml", "_base_: aml.yaml\nzip_options: ['-x', '*/tmp', '-x', 's?c/*']\n")
    fate = fates(act.plan("aux_data/aml/c1.yaml"), "c1.yaml")["zip_options"]
    assert "`s?c/*` may leave out less than it did" in fate.why
    assert "to zip `*/tmp` is a file's name and no folder's, so nothing stands for it" in fate.why


LEGACY = """\
azure_blob_config_file: ./aux_data/configs/vigeastblob_account.yaml
aml_config: aux_data/aml/config.json
config_param:
    code_path: me/code/x.zip
    data_folder: me/data
    models_folder: /
    odd: [a]
compute_target: NC24RSV3
"""


def test_paths_alone_lie_in_the_account_at_the_top(act: Shop) -> None:
    act.put("aux_data/aml/old.yaml", LEGACY)
    plan = act.plan("aux_data/aml/old.yaml")
    target = tree(plan)["targets"]["old"]
    assert target["store"] == "vigeastblob_account-gofer"
    assert tree(plan)["stores"][target["store"]]["url"] == "az://xxxx/me/gofer"
    assert target["folders"] == {
        "data": {"store": "vigeastblob_account", "path": "me/data"},
        "models": {"store": "vigeastblob_account", "path": "/"},
    }
    found = fates(plan)
    assert found["config_param.code_path"].to == "targets.old.store"
    assert found["config_param.data_folder"].to == "targets.old.folders.data.path"
    assert found["azure_blob_config_file"].to == "stores.vigeastblob_account"
    assert found["config_param.odd"].outcome is KeyOutcome.UNKNOWN


def test_paths_alone_without_an_account(act: Shop) -> None:
    act.put("aux_data/aml/old.yaml", LEGACY.partition("\n")[2])
    plan = act.plan("aux_data/aml/old.yaml")
    assert "folders" not in tree(plan)["targets"]["old"]
    needs = "`config_param.data_folder` needs the key `azure_blob_config_file`"
    assert fates(plan)["config_param.data_folder"].why == needs


BASE = "docker: {image: a/b:1}\nenv: {A: '1'}\ngpu_per_node: 8\nmulti_process: false\n"


def test_what_others_build_on_is_no_target_by_itself(act: Shop) -> None:
    act.put("aux_data/aml/base.yaml", BASE)
    act.put("aux_data/aml/half.yaml", "_base_: base.yaml\naml_config: aux_data/aml/config.json\n")
    for name in ("c1", "c2"):
        act.put(f"aux_data/aml/{name}.yaml", f"_base_: half.yaml\ncompute_target: {name}\n")
    plan = act.plan()
    assert [*tree(plan)["targets"]] == ["aml", "c1", "c2"]
    assert tree(plan)["targets"]["c1"]["gpus_per_node"] == 8
    messages = [
        note for note in plan.notes if "is no target by itself; it comes with the files that build" in note
    ]
    assert [note.partition("` ")[0].rpartition("/")[2] for note in messages] == ["base.yaml", "half.yaml"]
    with pytest.raises(ConfigError, match="no file of a tool"):
        act.plan("aux_data/aml/base.yaml")


def test_a_whole_target_that_another_builds_on_is_one(act: Shop) -> None:
    act.put("aux_data/aml/c1.yaml", "_base_: aml.yaml\n")
    assert [*tree(act.plan())["targets"]] == ["aml", "c1"]


def test_an_account_file_of_a_like_name_is_named(act: Shop) -> None:
    (act.folder / "aux_data/configs/vigeastblob_account.yaml").rename(
        act.folder / "aux_data/configs/vigblob_account.yaml"
    )
    plan = act.plan("aux_data/aml/aml.yaml")
    why = fates(plan)["config_param.data_folder.path"].why
    assert why.endswith("(did you mean `vigblob_account.yaml`?); write it and import again")
    assert why in plan.notes


def test_what_is_empty_is_known_and_says_nothing(act: Shop) -> None:
    act.put("acct.yaml", "account_name: a\ncontainer_name: b\naccount_key: ''\nsas_token: ' '\n")
    found = fates(act.plan("acct.yaml"))
    assert {found[key].why for key in ("account_key", "sas_token")} == {"it is empty"}
    assert found["account_key"].outcome is KeyOutcome.DROPPED


def test_two_files_of_one_name_are_refused(act: Shop) -> None:
    act.put("other/aml.yaml", CLUSTER)
    with pytest.raises(ConfigError, match="two of the files describe a target `aml`"):
        act.plan("aux_data/aml/aml.yaml", "other/aml.yaml")


def test_the_default_is_not_taken_from_a_file_that_has_one(act: Shop) -> None:
    act.put("gofer.yaml", "target: local\n")
    assert act.bring("aux_data/aml/aml.yaml").default_target == "local"


@pytest.mark.parametrize(("platform", "environment"), [("aml", True), ("itp", True), ("singularity", False)])
def test_without_a_custom_image_a_run_has_the_pytorch_of_the_service(
    act: Shop, platform: str, environment: bool
) -> None:
    text = CLUSTER.replace("use_custom_docker: true", "use_custom_docker: false")
    act.put("aux_data/aml/aml.yaml", f"platform: {platform}\n{text}")
    plan = act.plan("aux_data/aml/aml.yaml")
    target = tree(plan)["targets"]["aml"]
    assert "image" not in target
    assert target.get("environment") == ("acpt-pytorch-2.2-cuda12.1@latest" if environment else None)
    found = fates(plan)
    assert found["docker.image"].outcome is KeyOutcome.DROPPED
    assert "PyTorch" in found["use_custom_docker"].why
