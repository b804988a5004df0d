"""Files that mean harm, or were written by accident: an error with file and line, and never a silent loss."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
import yaml
from unit.importers import printed
from unit.importers.shop import Shop, fates, text_of

from gofer.config.yaml.nodes import Items, Node, Scalar, Table
from gofer.errors import ConfigError, UsageError
from gofer.importers.foreign import read_foreign
from gofer.importers.keys import dotted, leaves

LAUGHS = "config_param: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}, z: *a{n - 1}}}\n" for n in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LAUGHS, "more than 20,000 keys once its aliases are followed"),
        ("config_param: " + "{a: " * 60 + "1" + "}" * 60, "nested deeper than 50 levels"),
        ("compute_target: a\ncompute_target: b\n", "hostile.yaml:2: `compute_target` is given twice"),
        (b"compute_target: \xff\xfe\n", "hostile.yaml:1: the file is not UTF-8 text"),
        ("compute_target: !!python/object/apply:os.system ['true']\n", "hostile.yaml:1: the YAML tag"),
        ("compute_target: a\n---\nb: c\n", "a second document"),
        ("compute_target: [a\n", "not valid YAML"),
        ("- compute_target\n", "the file must be a map"),
        ("compute_target: &x [*x]\n", "is inside its own anchor"),
        ("x" * (4 << 20) + ": 1\n", "larger than 4 MiB"),
        ("compute_target: [a, b]\n", "`compute_target` must be a single value, not a list"),
        (
            "compute_target: a\ngpu_per_node: four\n",
            "hostile.yaml:2: `gpu_per_node` must be a whole number, not `four`",
        ),
        ("compute_target: a\nmulti_process: 7\n", "`multi_process` must be true or false, not `7`"),
        ("config_param: words\n", "`config_param` must be a map, not `words`"),
        ("compute_target: a\nzip_options: [[a]]\n", "`zip_options` must be a list of texts"),
        ("vc: a\nblob_mount_info: [a]\n", "`blob_mount_info` must be a list of maps"),
        ("colour: blue\n", "this is no file of a tool that gofer knows"),
        ("", "this is no file of a tool that gofer knows"),
        ("account_name: a\ncontainer: b\n", "the account needs the key `container_name`"),
    ],
)
def test_refused_with_the_reason(shop: Shop, text: str | bytes, says: str) -> None:
    shop.put("hostile.yaml", text)
    with pytest.raises(ConfigError) as caught:
        shop.plan("hostile.yaml", name="x")
    assert says in caught.value.message
    assert "hostile.yaml" in caught.value.message
    assert not (shop.folder / "gofer.yaml").exists()


@pytest.mark.parametrize("made", ["missing", "folder", "pipe"])
def test_no_file_at_all(shop: Shop, made: str) -> None:
    path = shop.folder / "hostile.yaml"
    if made == "folder":
        path.mkdir()
    elif made == "pipe":
        os.mkfifo(path)
    with pytest.raises(ConfigError, match=r"hostile\.yaml"):
        shop.plan("hostile.yaml")


def test_json_that_is_no_json(shop: Shop) -> None:
    shop.put("job.json", '{"cluster": {"a": 1},\n "cluster": {"a": 2}}')
    with pytest.raises(ConfigError, match=r"job\.json:2: `cluster` is given twice"):
        shop.plan("job.json")


def test_names_cannot_leave_their_folder(shop: Shop) -> None:
    shop.put("job.json", printed.TOOLKIT_1.replace("first try", "../../../evil"))
    assert [path.relative_to(shop.folder).as_posix() for path in shop.plan("job.json").texts] == [
        "gofer.yaml",
        "jobs/evil.yaml",
    ]


REACHING = "${file:~/.ssh/id_ed25519}"


@pytest.mark.parametrize(
    ("name", "text", "old"),
    [
        ("aux_data/aml/aml.yaml", printed.CLUSTER, "amsword/setup:py36pt16"),
        ("aux_data/aml/aml.yaml", printed.CLUSTER, "path/to/data"),
        ("aux_data/aml/aml.yaml", printed.CLUSTER, "'0'"),
        ("aux_data/aml/config.json", printed.WORKSPACE, '"xxxx"'),
        ("xt_config.yaml", printed.XT, '"fast"'),
        ("xt_config.yaml", printed.XT, '"dummy-sub"'),
        ("xt_config.yaml", printed.XT, "me@box-one"),
        ("xt_config.yaml", printed.XT, "/srv/xt/file_store"),
        ("job.json", printed.TOOLKIT_1, '"acct"'),
        ("job.json", printed.TOOLKIT_1, '"dummy/account/key=="'),
        ("job.json", printed.TOOLKIT_1, "me/data"),
    ],
)
def test_a_file_from_elsewhere_reaches_for_nothing(act: Shop, name: str, text: str, old: str) -> None:
    assert old in text
    quote = old[0] if old[0] in "'\"" else ""
    act.put(name, text.replace(old, f"{quote}{REACHING}{quote}"))
    written = text_of(act.plan(name, name=None if name == "xt_config.yaml" else "x"))
    assert REACHING not in written.replace("$${file", "")


def with_more(node: Node) -> object:
    """The same as plain data, with a key that nobody knows in every map."""
    if isinstance(node, Table):
        return {**{key: with_more(inner) for key, inner in node.entries.items()}, "zz_unheard_of": "dummy"}
    if isinstance(node, Items):
        return [with_more(inner) for inner in node.items]
    assert isinstance(node, Scalar)
    return None if node.is_null else node.text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aux_data/aml/aml.yaml", printed.CLUSTER),
        ("aux_data/configs/vigeastblob_account.yaml", printed.ACCOUNT),
        ("aux_data/aml/config.json", printed.WORKSPACE),
        ("philly_vc.yaml", printed.PHILLY),
        ("two.yaml", printed.TWO_BLOBS),
        ("multi.yaml", printed.CLUSTERS),
        ("xt_config.yaml", printed.XT),
        ("one.json", printed.TOOLKIT_1),
        ("two.json", printed.TOOLKIT_2),
    ],
)
def test_no_key_is_ever_lost(act: Shop, name: str, text: str) -> None:
    path = act.put(name, text)
    # JSON is YAML as well, and both readers must say the same of it.
    spoilt = {"env-vars", "env"}
    data = with_more(read_foreign(path))
    act.put(name, json.dumps(data, ensure_ascii=False))
    expected = {dotted(key) for key, _ in leaves(read_foreign(path))}
    found = fates(act.plan(name, name=None if name == "xt_config.yaml" else "x"), Path(name).name)
    assert set(found) == expected
    for key, fate in found.items():
        if key.endswith("zz_unheard_of") and not spoilt & set(key.split(".")):
            assert fate.outcome in ("unknown", "dropped"), key
    assert found["zz_unheard_of"].outcome == "unknown"


ODD_VALUES: list[object] = [
    None, "", " ", "x", "~nobody/x", "/", "..", "a/b", "\N{SNOWMAN}", "new\nline", "nul\x01", "-1",
    "99999999999999999999", "true", 7, True, 1.5, [], {}, ["x"], [["x"]], [{}], [{"a": None}], [None],
    {"": ""}, {"a b": {"c": 1}}, {"kind": "azureml"}, "${{x}}", "$vault", "x" * 5000,
]  # fmt: skip


def spoil(data: object, chance: random.Random) -> object:
    """The same with one value, at any depth, replaced by an odd one."""
    if isinstance(data, dict) and data and chance.random() < 0.85:
        key = chance.choice([*data])
        return {**data, key: spoil(data[key], chance)}
    if isinstance(data, list) and data and chance.random() < 0.7:
        at = chance.randrange(len(data))
        return [*data[:at], spoil(data[at], chance), *data[at + 1 :]]
    return chance.choice(ODD_VALUES)


@pytest.mark.parametrize(
    "text",
    [getattr(printed, name) for name in sorted(vars(printed)) if name.isupper()],
    ids=lambda text: text[:12],
)
def test_a_wrong_value_is_refused_or_reported_and_never_a_crash(act: Shop, text: str) -> None:
    path = act.put("spoilt.yaml", text)
    plain = yaml.safe_load(text.replace("\t", " "))
    ends = set()
    for seed in range(120):
        chance = random.Random(seed)
        spoilt = spoil(spoil(plain, chance), chance)
        path.write_text(json.dumps(spoilt))
        try:
            plan = act.plan("spoilt.yaml", name=None if "compute-targets" in text else "x")
        except UsageError as error:
            ends.add("refused")
            assert "\n" not in error.message
        else:
            ends.add("read")
            expected = {dotted(key) for key, _ in leaves(read_foreign(path))}
            assert set(fates(plan, "spoilt.yaml")) == expected
    assert ends == {"refused", "read"}
