"""XT's files over one another, as XT itself reads them."""

from __future__ import annotations

import pytest
from unit.importers.printed import XT
from unit.importers.shop import Shop, fates, tree

from gofer.importers.keys import KeyOutcome


@pytest.fixture
def xt(shop: Shop) -> Shop:
    shop.put("xt_config.yaml", XT)
    return shop


OVER = """\
compute-targets:
    near: {service: "msrresrchws", compute: "othervc", vm-size: "ND12_v2g4", sla: "standard"}
    aml-low: {compute: "cpu8"}
xt-services:
    target: "near"
general:
    experiment: "exper2"
"""


def test_files_in_layers_are_one(xt: Shop) -> None:
    xt.put("over.yaml", OVER)
    plan = xt.plan("xt_config.yaml", "over.yaml")
    written = tree(plan)
    assert written["target"] == "near"
    near = written["targets"]["near"]
    assert (near["subscription_id"], near["virtual_cluster"], near["gpus_per_node"]) == (
        "dummy-sub",
        "othervc",
        4,
    )
    assert {target.get("experiment") for target in written["targets"].values()} == {"exper2", None}
    below, above = fates(plan, "xt_config.yaml"), fates(plan, "over.yaml")
    assert above["compute-targets.near.service"].to == "targets.near.workspace"
    assert below["general.experiment"].why.endswith("over.yaml:7` says otherwise")
    # The other way round the team's file is the nearer one.
    assert tree(xt.plan("over.yaml", "xt_config.yaml"))["target"] == "local"


def test_a_target_of_a_nearer_file_is_all_of_it(xt: Shop) -> None:
    """XT replaces records whole: what the one below says is gone, whether or not the nearer one says it."""
    xt.put("over.yaml", OVER.replace("aml-low: {", 'lab: {service: "pool", boxes: ["two"]}\n    aml-low: {'))
    plan = xt.plan("xt_config.yaml", "over.yaml")
    written = tree(plan)["targets"]
    assert (written["lab"]["hosts"], "setup" in written["lab"]["job"]) == (["me@box-two"], False)
    assert "aml-low" not in written
    below, above = fates(plan, "xt_config.yaml"), fates(plan, "over.yaml")
    assert above["compute-targets.aml-low.compute"].why == (
        "it names no `service`; XT takes a target whole, from the nearest file that has it"
    )
    assert below["compute-targets.lab.setup"].why.endswith(
        "over.yaml:3` stands for all of `compute-targets.lab`"
    )
    assert below["compute-targets.lab.boxes"].why.endswith("over.yaml:3` says otherwise")
    assert not [one.key for one in plan.findings if one.outcome is KeyOutcome.UNKNOWN]


LAYERS = {
    "variables": ("general: {env-vars: {MORE: x}}\n", {"MORE": "x"}),
    "none": ("general: {env-vars: {}}\ndockers: {}\n", {}),
    "an empty section": ("general:\ndockers:\n", {"MODE": "fast", "HF_TOKEN": "${secret:HF_TOKEN}"}),
}


@pytest.mark.parametrize("case", LAYERS)
def test_what_a_section_names_is_replaced_whole(xt: Shop, case: str) -> None:
    text, env = LAYERS[case]
    xt.put("over.yaml", f"{text}code: {{code-omit: [tmp]}}\n")
    plan = xt.plan("xt_config.yaml", "over.yaml")
    found = tree(plan)["targets"]["eus-v100"]["job"]["env"]
    assert found == {**env, "XT_DATA_DIR": "./mnist"}
    assert tree(plan)["ignore"] == ["tmp"]
    assert tree(plan)["targets"]["eus-v100"]["image"] == "mine"


def test_the_nearest_of_three_counts_and_a_middle_one_is_no_less_whole(xt: Shop) -> None:
    xt.put("team.yaml", 'compute-targets:\n    lab: {service: "pool", boxes: ["two"]}\nboxes:\n    one:\n')
    xt.put("mine.yaml", "general: {experiment: mine}\nxt-services: {target: lab}\n")
    plan = xt.plan("xt_config.yaml", "team.yaml", "mine.yaml")
    assert tree(plan)["targets"]["lab"]["hosts"] == ["me@box-two"]
    assert tree(plan)["targets"]["eus-v100"]["experiment"] == "mine"
    why = fates(plan, "xt_config.yaml")["boxes.one.address"].why
    assert why.endswith("team.yaml:4` stands for all of `boxes.one`")
