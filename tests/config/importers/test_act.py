"""`aux_data/aml/NAME.yaml` with what it names: the printed files, older and newer keys, files that build on
others.
"""

from __future__ import annotations

import msgspec
import pytest
from config.importers.printed import ACCOUNT, CLUSTER
from config.importers.shop import WITHOUT, Shop, fates, text_of, tree

from gofer.config.folders import folders_of
from gofer.config.importers.keys import Outcome
from gofer.config.importers.zip_patterns import read_zip_options
from gofer.errors import ConfigError


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
    job:
      gpus: 4
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
        if [ -f requirements.txt ]; then
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
ignore:
- /assets/
- /output/
- /data/
- /visualization/
- wandb/
- '**/*src/py-faster-rcnn/'
- '**/*src/CMC/'
"""


def test_the_files_as_the_document_prints_them(act: Shop) -> None:
    plan = act.plan("aux_data/aml/aml.yaml")
    assert text_of(plan) == WRITTEN
    assert [*plan.texts] == [act.folder / "gofer.yaml"]
    assert [(one.name, one.where.rpartition("/")[2]) for one in plan.secrets] == [
        ("vigeastblob_account-key", "vigeastblob_account.yaml:2")
    ]
    assert not [one for one in plan.findings if one.outcome is Outcome.UNKNOWN]
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
    assert found["compute_target"].outcome is Outcome.CARRIED
    assert found["account_key"].outcome is Outcome.CHANGED
    assert "gofer secret set vigeastblob_account-key" in found["account_key"].why
    assert found["sas_token"].outcome is Outcome.DROPPED
    assert found["config_param.code_path.path"].to == "targets.aml.store"
    assert (found["zip_options"].outcome, found["zip_options"].to) == (Outcome.CHANGED, "ignore")
    assert found["azure_blob_config_file"].why == "it says nothing"


def test_a_kind_that_is_not_there_becomes_a_comment(act: Shop) -> None:
    plan = act.plan("aux_data/aml/aml.yaml", kinds=WITHOUT)
    written = tree(plan)
    assert written["targets"] is None
    assert "target" not in written
    assert "  # aml:\n  #   kind: azureml\n" in text_of(plan)
    assert any("this release has no kind of target `azureml`" in note for note in plan.notes)


def test_an_option_that_the_kind_lacks_is_dropped_and_said(act: Shop) -> None:
    act.put("aux_data/aml/aml.yaml", CLUSTER.replace("aks_compute: false", "aks_compute: true"))
    act.put("aux_data/aml/itp.yaml", "_base_: aml.yaml\npreemption_allowed: true\n")
    target = tree(act.plan("aux_data/aml/itp.yaml"))["targets"]["itp"]
    assert (target["platform"], target["preemptible"]) == ("itp", True)
    plan = act.plan("aux_data/aml/itp.yaml", kinds={**WITHOUT, "azureml": Lesser})
    assert tree(plan)["targets"]["itp"]["platform"] == "itp"
    assert "preemptible" not in tree(plan)["targets"]["itp"]
    fate = fates(plan)["preemption_allowed"]
    assert (fate.outcome, fate.to) == (Outcome.DROPPED, "")
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
    assert near["_base_"].outcome is Outcome.CHANGED
    assert near["new_key"].outcome is Outcome.UNKNOWN
    assert far["gpu_per_node"].outcome is Outcome.DROPPED
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


def test_files_that_are_missing_are_said_and_the_rest_is_carried(shop: Shop) -> None:
    shop.put("aux_data/aml/aml.yaml", CLUSTER)
    plan = shop.plan("aux_data/aml/aml.yaml")
    assert "stores" not in tree(plan)
    fate = fates(plan)["config_param.data_folder.path"]
    assert fate.outcome is Outcome.DROPPED
    assert "vigeastblob_account.yaml`; write it and import again" in fate.why
    assert fates(plan)["aml_config"].outcome is Outcome.DROPPED
    assert any("does not say which workspace it is in" in note for note in plan.notes)


def test_an_account_or_a_workspace_alone(act: Shop) -> None:
    act.put(
        "acct.yaml", ACCOUNT.replace("account_key: xxxx\n", "unheard: of\n").replace("?xxxx", "?sig=dummysig")
    )
    plan = act.plan("acct.yaml")
    assert tree(plan) == {
        "stores": {"acct": {"url": "az://xxxx", "account": "xxxx", "sas": "${secret:acct-sas}"}}
    }
    assert fates(plan)["unheard"].outcome is Outcome.UNKNOWN
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
    assert fates(plan)["env.bad name"].outcome is Outcome.DROPPED


def test_what_could_not_be_loaded_is_not_written(act: Shop) -> None:
    act.put("acct.yaml", "account_name: a\ncontainer_name: ${secret:box}\n")
    with pytest.raises(ConfigError) as caught:
        act.plan("acct.yaml")
    assert "what would be written cannot be read: " in caught.value.message
    assert "gofer.yaml:3: `stores.acct.url` must not hold a secret" in caught.value.message


@pytest.mark.parametrize(
    ("words", "ignore", "others"),
    [
        (["-x", "\\*src/CMC/\\*"], ["**/*src/CMC/"], []),
        (["-x", "*.pyc", "data/*"], ["*.pyc", "/data/"], []),
        (["-r", "-x", "a/b", "-9"], ["/a/b"], ["-r", "-9"]),
        (["-x*wandb*"], ["*wandb*"], []),
        ([], [], []),
    ],
)
def test_options_of_zip(words: list[str], ignore: list[str], others: list[str]) -> None:
    found = read_zip_options(words)
    assert (found.ignore, found.others) == (ignore, others)


def test_two_files_of_one_name_are_refused(act: Shop) -> None:
    act.put("other/aml.yaml", CLUSTER)
    with pytest.raises(ConfigError, match="two of the files describe a target `aml`"):
        act.plan("aux_data/aml/aml.yaml", "other/aml.yaml")


def test_the_default_is_not_taken_from_a_file_that_has_one(act: Shop) -> None:
    act.put("gofer.yaml", "target: local\n")
    assert act.bring("aux_data/aml/aml.yaml").default_target == "local"
