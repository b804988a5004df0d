"""Adding to a gofer.yaml that is there: nothing of it is lost or replaced, nothing is added twice."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.importers.shop import Shop, text_of

from gofer.config.yaml.document import parse_document
from gofer.config.yaml.text import clashes, join, plain
from gofer.errors import ConfigError

NEW: dict[str, Any] = {
    "targets": {"eus": {"kind": "azureml", "job": {"env": {"A": "1"}}}},
    "stores": {"blob": {"url": "az://box"}},
    "ignore": ["out/", "tmp/"],
}


def joined(old: str, comments: dict[str, str] | None = None) -> str:
    return join(dedent(old), NEW, comments or {}, "gofer.yaml")


@pytest.mark.parametrize(
    "old",
    [
        "",
        "# only a comment\n",
        "target: local",
        "targets:\n  lab: {kind: local}\nstores:\n",
        "targets: null\nstores: ~\nignore:\n",
        "targets:\n    lab:\n        kind: local\n\n# about the stores\nstores:\n    a: {url: 'file:///a'}\n",
        "targets: {lab: {kind: local}}\nstores: {}\nignore: [a]\n",
        "targets: {\n  lab: {kind: local},\n}\nstores: {a: {url: 'file:///a'},}\n",
        "ignore:\n- a\n- tmp/\njob: {gpus: 1}\n",
        "ignore:\n  - a # why\n  # the end\n\ntargets:\n  lab:\n    job:\n      setup: |\n        x\n\n\n",
        "targets: {eus: {kind: azureml, job: {gpus: 1}}}\n",
        "{targets: {eus: {kind: azureml, job: }}, stores: null}\n",
        "{}\n",
        "targets:\n  eus:\n    kind: azureml\n    job:\n      gpus: 1\n",
        "targets:\n  eus: {kind: azureml}\n",
        "targets:\n  eus:\n    kind: azureml\n    job:\n",
        "x-anchor: &a {kind: local}\ntargets:\n  one: *a\nignore: [b]\n",
        "targets:\r\n  lab: {kind: local}\r\n",
        "targets:\n  lab: {kind: local}\nstores:\n  a:\n    url: 'file:///a'",
    ],
)
def test_old_and_new_are_both_there(old: str) -> None:
    text = joined(old)
    found = yaml.safe_load(text)
    before = yaml.safe_load(old) or {}
    for line in old.split("\n"):
        if "#" in line:
            assert line in text
    assert found["targets"]["eus"] == {
        "kind": "azureml",
        "job": {**(((before.get("targets") or {}).get("eus") or {}).get("job") or {}), "env": {"A": "1"}},
    }
    for name, target in (before.get("targets") or {}).items():
        assert name == "eus" or found["targets"][name] == target
    assert found["stores"] == {**(before.get("stores") or {}), "blob": {"url": "az://box"}}
    assert set(found["ignore"]) == {*(before.get("ignore") or []), "out/", "tmp/"}
    assert len(found["ignore"]) == len(set(found["ignore"]))
    assert joined(text) == text


def test_a_comment_goes_behind_the_targets_and_only_once() -> None:
    comments = {"new": "# Not in use: x\n# new:\n#   kind: y\n"}
    text = joined("targets:\n  lab: {kind: local}\n\n# stores\nstores: {}\n", comments)
    assert "  # Not in use: x\n  # new:\n  #   kind: y\n\n# stores\n" in text
    assert joined(text, comments) == text


def test_clashes_are_named() -> None:
    old = plain(parse_document("targets: {eus: {kind: ssh}}\nstores: {blob: 1}\nignore: x\n", source="f"))
    assert clashes(old, NEW) == ["targets.eus.kind", "stores.blob", "ignore"]
    assert (
        clashes(
            plain(parse_document("job: {multi_process: True}", source="f")), {"job": {"multi_process": True}}
        )
        == []
    )


def test_a_clash_is_refused_and_nothing_is_written(act: Shop) -> None:
    old = "stores:\n  vigeastblob_account: {url: 'az://other', account: xxxx}\n"
    path = act.put("gofer.yaml", old)
    with pytest.raises(ConfigError) as caught:
        act.bring("aux_data/aml/aml.yaml")
    assert "has other values for `stores.vigeastblob_account.url`" in caught.value.message
    assert caught.value.hint is not None
    assert "--as NAME" in caught.value.hint
    assert path.read_text() == old


def test_the_file_keeps_its_mode_and_its_link(act: Shop) -> None:
    real = act.put("shared/gofer.yaml", "target: local\n")
    real.chmod(0o640)
    (act.folder / "gofer.yaml").symlink_to(real)
    act.bring("aux_data/aml/aml.yaml")
    assert (act.folder / "gofer.yaml").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "azureml" in real.read_text()
    assert sorted(path.name for path in real.parent.iterdir()) == ["gofer.yaml"]


def test_the_same_import_again_changes_nothing(act: Shop) -> None:
    act.bring("aux_data/aml/aml.yaml")
    assert act.plan("aux_data/aml/aml.yaml").texts == {}


def test_an_odd_layout_is_refused_and_not_changed() -> None:
    with pytest.raises(ConfigError, match="without rewriting it"):
        join("targets: {a: {kind: local} # why\n}\n", NEW, {}, "gofer.yaml")


def test_a_second_cluster_joins_the_first(act: Shop) -> None:
    act.bring("aux_data/aml/aml.yaml")
    act.put("aux_data/aml/c1.yaml", "_base_: aml.yaml\ncompute_target: other\n")
    settings = act.bring("aux_data/aml/c1.yaml")
    assert {"aml", "c1"} <= set(settings.target_names)
    assert text_of(act.plan("aux_data/aml/c1.yaml", name="c2")).count("\nstores:\n") == 1


NAMES = st.text("abc", min_size=1, max_size=3)
LEAVES = st.one_of(st.text(max_size=12), st.integers(0, 99), st.booleans())
TREES = st.recursive(
    LEAVES, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=8
)
MAPS = st.dictionaries(NAMES, TREES, min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(old=MAPS, new=MAPS, flow=st.booleans())
def test_any_tree_joins_any_other_unless_they_clash(old: Any, new: Any, flow: bool) -> None:
    text = yaml.safe_dump(old, default_flow_style=flow, allow_unicode=True)
    before = plain(parse_document(text, source="f"))
    if clashes(before, new):
        return
    after = join(text, new, {}, "f")
    assert clashes(plain(parse_document(after, source="f")), {**new}) == []
    assert join(after, new, {}, "f") == after
    if not flow:
        assert all(line in after for line in text.splitlines() if not line.endswith("''"))
