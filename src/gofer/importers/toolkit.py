"""A job of the VS Code toolkit, in either of its formats, as a target, a store and a job file.

Its sweeps, `lr: 0.1, 0.01` and `(a, b): (1, 2), (3, 4)`, become columns of an array.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gofer.config.yaml.decode import excerpt
from gofer.errors import ConfigError, UsageError
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import read_foreign
from gofer.importers.keys import Sheet, SheetKeys
from gofer.importers.toolkit_code import import_work_folder
from gofer.importers.toolkit_data import (
    copied_data,
    import_data,
    import_runs,
    link_lines,
    place_rows,
    runs_facts,
)
from gofer.model.bounds import MOST_ROWS

_TOKEN = re.compile(
    r"""[^\S\n]*(?:(?P<quoted>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|(?P<mark>[(),:\n])|(?P<word>[^\s,:()]+))"""
)
_MOST_GROUPS = 2 * MOST_ROWS  # with the marks between them
_HINT = "a line of a sweep is `name: value, value`, or `(a, b): (1, 2), (3, 4)`"
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


# Words that belong together, or a mark.
_Group: TypeAlias = tuple[str, ...] | str

# The one cluster of the toolkit's first format that was no virtual cluster.
_ITP = "itplabrr1cl1"
_ARM = re.compile(
    r"/subscriptions/([^/]+)/resourcegroups/([^/]+)/providers/[^/]+/workspaces/([^/]+)/?", re.IGNORECASE
)
_LONGEST_NAME = 200
_STRICT = "lines of one script; the first that fails ends it, where the toolkit went on"


class Sweep(NamedTuple):
    """Columns that vary alone, and the rows of those that vary together."""

    each: dict[str, list[str]]
    rows: list[dict[str, str]]


class _Token(NamedTuple):
    text: str
    is_mark: bool = False
    is_quoted: bool = False


class _Axis(NamedTuple):
    """Arguments that vary together, mostly one, and their values."""

    names: tuple[str, ...]
    values: list[tuple[str, ...]]


def read_sweep(lines: Sequence[str]) -> Sweep:
    """The lines are one text, in which a line break is a comma, and a name with a colon begins an argument.

    UsageError for a text that names no argument, or gives one no value or too many.
    """
    axes = _axes("\n".join(line for text in lines for line in text.splitlines()))
    _check(axes)
    each = {one.names[0]: [value for (value,) in one.values] for one in axes if len(one.names) == 1}
    tuples = [
        [dict(zip(one.names, values, strict=True)) for values in one.values]
        for one in axes
        if len(one.names) > 1
    ]
    if math.prod(len(one) for one in tuples) > MOST_ROWS:
        raise UsageError(f"the sweep has more than {MOST_ROWS:,} rows")
    rows = [dict(itertools.chain(*(part.items() for part in row))) for row in itertools.product(*tuples)]
    return Sweep(each, rows if tuples else [])


def _check(axes: Sequence[_Axis]) -> None:
    seen: set[str] = set()
    for names, values in axes:
        shown = excerpt(", ".join(names))
        if not names or not values or any(len(one) != len(names) for one in values):
            raise UsageError(f"the sweep does not give each of {shown} a value")
        if len({*names} - seen) != len(names):
            raise UsageError(f"the sweep gives values to {shown} twice")
        seen |= {*names}


def _axes(text: str) -> list[_Axis]:
    groups = [*itertools.islice(_groups(text), _MOST_GROUPS + 1)]
    if len(groups) > _MOST_GROUPS:
        raise UsageError(f"the sweep has more than {MOST_ROWS:,} values")
    axes: list[_Axis] = []
    before: _Group = ","
    for group, behind in itertools.pairwise([*groups, ","]):
        if group == ":" and isinstance(before, str):
            raise UsageError("a `:` of the sweep has no name before it", hint=_HINT)
        if not isinstance(group, str):
            if behind == ":":
                axes.append(_Axis(group, []))
            elif not axes:
                raise UsageError(f"no argument is named before {excerpt(', '.join(group))}", hint=_HINT)
            else:
                axes[-1].values.append(group)
        before = group
    return axes


def _groups(text: str) -> Iterator[_Group]:
    """Words that belong together, which is one word unless they stand in brackets, and marks between them."""
    together: list[str] | None = None
    for token in _tokens(text):
        mark = token.text if token.is_mark else ""
        if together is None and mark == "(":
            together = []
        elif together is None and mark != ")":
            yield from [mark] if mark else [(one,) for one in _numbers(token)]
        elif together is not None and mark == ")":
            yield tuple(together)
            together = None
        elif together is not None and not mark:
            together.append(token.text)
        elif mark not in (",", "\n"):
            raise UsageError(f"a `{mark}` of the sweep has no place where it stands", hint=_HINT)
    if together is not None:
        raise UsageError("a bracket of the sweep does not close", hint=_HINT)


def _numbers(token: _Token) -> list[str]:
    """The whole numbers of a range such as `2-4`; any other word is itself."""
    match = None if token.is_quoted else _RANGE.fullmatch(token.text)
    if match is None:
        return [token.text]
    first, last = int(match[1]), int(match[2])
    if not 0 <= last - first < MOST_ROWS:
        many = "too many values" if last > first else "no value"
        raise UsageError(f"the range `{token.text}` of the sweep has {many}")
    return [str(number) for number in range(first, last + 1)]


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text.strip()):
        if match["quoted"]:
            yield _Token(match["quoted"][1:-1], is_quoted=True)
        else:
            yield _Token(match["mark"] or match["word"], is_mark=bool(match["mark"]))


def import_toolkit(draft: ImportDraft, path: Path, name: str | None = None) -> str:
    """The target that the file's cluster becomes; its script becomes the job file of the same name."""
    keys = draft.sheet(Sheet(read_foreign(path)))
    cluster, experiment = keys.inner("cluster"), keys.inner("experiment")
    called = name or cluster.text("virtual_cluster") or path.stem
    target = safe_name(called)
    entry: Entry = {"kind": "azureml", **_cluster(draft, cluster, target)}
    entry |= _image(keys.inner("environment"), target, is_itp=entry["platform"] == "itp")
    if experiment.text("name"):
        entry["experiment"] = experiment.text("name") or ""
        experiment.carried("name", f"targets.{target}.experiment")
    entry |= _identity(experiment, target)
    name_of_job = _free_job(draft, experiment.text("job_name") or path.stem)
    job = _job(draft, keys, target, name_of_job)
    data = import_data(draft, keys, target)
    job.update(import_work_folder(draft, keys, _store_of(data), f"jobs/{name_of_job}.yaml"))
    final = draft.number_target(target, {**entry, **data, **runs_facts(draft, keys)})
    keys.sheet.retarget(f"targets.{target}", f"targets.{final}")
    job["target"] = final
    draft.targets[final] = {**entry, **import_runs(draft, keys, final), **data}
    draft.settle(final)
    return final


def _store_of(data: Entry) -> str | None:
    store = data.get("store")
    return store if isinstance(store, str) else None


def _free_job(draft: ImportDraft, wanted: str) -> str:
    # A name may hold `${{column}}` of a sweep.
    plain = safe_name(re.sub(r"\$\{\{[^}]*\}\}", "", wanted).strip("-_. "))
    name, number = plain, 2
    while name in draft.jobs:
        name, number = f"{plain}-{number}", number + 1
    return name


def _cluster(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    entry: Entry = {}
    workspace = keys.text("workspace") or ""
    arm = _ARM.fullmatch(workspace)
    if arm:
        entry = {"subscription_id": arm[1], "resource_group": arm[2], "workspace": arm[3]}
        keys.changed("workspace", f"targets.{target}.workspace", "its id is written as its three parts")
    elif workspace:
        entry = {"workspace": workspace}
        keys.carried("workspace", f"targets.{target}.workspace")
    if not arm:
        draft.note_target(
            lambda name: (
                f"the file does not say which subscription and resource group `{name}` is in: add "
                f"`subscription_id`, `resource_group`{'' if workspace else ' and `workspace`'} to the target"
            )
        )
    cluster = keys.text("virtual_cluster")
    is_itp = cluster == _ITP
    entry["platform"] = "itp" if is_itp else "singularity"
    if cluster:
        ours = "compute" if is_itp else "virtual_cluster"
        entry[ours] = cluster
        keys.carried("virtual_cluster", f"targets.{target}.{ours}")
    return entry | (_itp_node(keys, target) if is_itp else _instance(keys, target))


def _itp_node(keys: SheetKeys, target: str) -> Entry:
    keys.dropped("sla_tier", "the cluster has no tiers")
    gpus = keys.number("instance_type")
    if gpus is None:
        return {}
    why = (
        "on this cluster it is a count of GPUs; each run takes an instance type of the compute that has them"
    )
    keys.changed("instance_type", f"targets.{target}.gpus_per_node", why)
    return {"gpus_per_node": gpus}


def _instance(keys: SheetKeys, target: str) -> Entry:
    entry: Entry = {}
    instance, tier = keys.text("instance_type"), keys.text("sla_tier")
    if instance:
        entry["instance_type"] = instance.rpartition(".")[2]
        prefixed = "the service's own prefix is left out" if "." in instance else ""
        keys.shared("instance_type", f"targets.{target}.instance_type", prefixed)
    if tier:
        entry["sla"] = tier.lower()
        keys.changed("sla_tier", f"targets.{target}.sla", "in lower case")
    for key in ("location", "locations"):
        if keys.texts(key):
            entry["locations"] = [*keys.texts(key)]
            keys.carried(key, f"targets.{target}.locations")
    return entry


def _image(keys: SheetKeys, target: str, *, is_itp: bool) -> Entry:
    """What the command runs in: an image of a registry, else what the service itself has by that name."""
    key = "docker_image" if "docker_image" in keys else "image"
    text = (keys.text(key) or "").strip()
    if not text:
        return {}
    if "/" in text:
        keys.carried(key, f"targets.{target}.image")
        return {"image": text}
    if not is_itp:
        keys.changed(key, f"targets.{target}.image_version", "one of Singularity's own images")
        return {"image_version": text}
    keys.changed(key, f"targets.{target}.environment", "a curated environment, not an image")
    return {"environment": text if "@" in text or ":" in text else f"{text}@latest"}


def _identity(keys: SheetKeys, target: str) -> Entry:
    """The identity that jobs opened storage by; a bare name does not say which one is meant."""
    entry: Entry = {}
    for key in ("managed_id", "managed_identity"):
        text = keys.text(key) or ""
        if text.startswith("/subscriptions/"):
            entry["identity"] = text
            keys.carried(key, f"targets.{target}.identity")
        elif text:
            keys.dropped(
                key, "a name is not enough: put its resource id or client id as the target's `identity`"
            )
    return entry


def _job(draft: ImportDraft, keys: SheetKeys, target: str, name: str) -> Entry:
    """The job file, in the draft already; `1` process on each node, as the toolkit starts them."""
    experiment, cluster = keys.inner("experiment"), keys.inner("cluster")
    job: Entry = {"target": target, "multi_process": False}
    draft.jobs[name] = job
    to = f"jobs/{name}.yaml"
    nodes = cluster.number("node_count")
    if nodes is not None:
        job["nodes"] = nodes
        cluster.carried("node_count", f"{to}: nodes")
    label = experiment.text("job_name")
    if label:
        job["name"] = label[:_LONGEST_NAME]
        shorter = f"its first {_LONGEST_NAME} characters" if len(label) > _LONGEST_NAME else ""
        experiment.shared("job_name", f"{to}: name", shorter)
    _sweep(experiment, job, to)
    script = place_rows(_lines(experiment, "script"), keys)
    if script:
        job["script"] = _with_columns(script, bool(job.get("each") or job.get("array")))
        experiment.changed("script", f"{to}: script", _STRICT)
    setup = place_rows(_lines(keys.inner("environment"), "setup_script"), keys)
    if setup:
        keys.inner("environment").changed("setup_script", f"{to}: setup", _STRICT)
    setup = link_lines(copied_data(keys)) + setup
    if setup:
        job["setup"] = setup
    return job


def _lines(keys: SheetKeys, key: str) -> str:
    text = "\n".join(keys.texts(key)).strip("\n")
    return f"{text}\n" if text.strip() else ""


def _with_columns(script: str, sweeps: bool) -> str:
    """`${{column}}`, a value of a sweep, is written `{column}`."""
    if sweeps:
        script = re.sub(r"(?<!\$)(?<!\{)\{([A-Za-z_][\w.-]*)\}(?!\})", r"{{\1}}", script)
    return re.sub(r"\$\{\{\s*([^{}]*?)\s*\}\}", r"{\1}", script)


def _sweep(keys: SheetKeys, job: Entry, to: str) -> None:
    lines = [line for line in keys.texts("arg_sweep") if line.strip()]
    if not lines:
        return
    try:
        sweep = read_sweep(lines)
    except UsageError as error:
        where = keys.where("arg_sweep")
        raise ConfigError(f"`experiment.arg_sweep`: {error.message}", where=where, hint=error.hint) from None
    if sweep.each:
        job["each"] = {name: [*values] for name, values in sweep.each.items()}
    if sweep.rows:
        job["array"] = [dict(row) for row in sweep.rows]
    if "name" in job:
        # A name is one for all rows, and its placeholders would stand in it as they are.
        job["name"] = re.sub(r"[-_ ]*\$\{\{[^}]*\}\}", "", str(job["name"])).strip() or to
        keys.changed("job_name", f"{to}: name", "one name for all rows; `gofer list` shows the values")
    keys.changed("arg_sweep", f"{to}: {'each' if sweep.each else 'array'}", "an array of runs")
