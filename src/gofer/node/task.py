"""One node's share of an attempt, as an agent gets it, and the environment of its command."""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple

from gofer.core import launch, run_layout
from gofer.core.command import launcher_options, output_word
from gofer.core.command.programs import locate
from gofer.core.launch import commit_variables, default_variables
from gofer.core.node_request import CodeFields, NodeRequest
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.node.code.project_paths import lead_to_copy


class Task(NamedTuple):
    """One share. `args` are the values of an array's row."""

    request: NodeRequest
    place: launch.NodePlace
    args: dict[str, str]
    code: str
    private: RunSecrets

    @property
    def store(self) -> str:
        return str(self.request.store)

    @property
    def origin(self) -> CodeFields:
        """The origin of the code; empty without code."""
        return self.request.code or {}

    @property
    def spans(self) -> bool:
        """Whether nodes of the run are on other machines, with queues of their own."""
        return self.request.span is not None

    @property
    def workdir(self) -> str:
        return os.path.normpath(os.path.join(self.code, self.request.workdir or "."))

    @property
    def has_stdin(self) -> bool:
        """Whether standard input was sent along."""
        return self.request.stdin is not None

    @property
    def stdin(self) -> str:
        """The path on the first node of the standard input that was sent."""
        return f"{self.code}.stdin"

    def stdin_of(self, rank: int) -> str:
        """The file that a rank reads as standard input: for rank 0 the one that was sent, else /dev/null."""
        return self.stdin if rank == 0 and self.has_stdin else os.devnull

    @property
    def function(self) -> str:
        """The path on each node of the function that was sent."""
        return f"{self.code}.function"

    @property
    def argv(self) -> list[str]:
        words = output_word.fill(self.request.command, self.args, self.output_folder)
        if self.request.function is None:
            return words
        return [self._existing_python(words[0]), self.function, *words[2:]]

    def _existing_python(self, word: str) -> str:
        """`python3` where the run's PATH has no `python`, as on a plain Debian; else the word."""
        search = self.private.environment.get("PATH", os.defpath)
        is_absent = word == "python" and locate(word, search) is None
        return "python3" if is_absent and locate("python3", search) is not None else word

    @property
    def output_folder(self) -> str:
        """The folder that the command finds as $GOFER_OUTPUT_DIR."""
        return os.path.join(self.store, run_layout.outputs_key(self.place.run_id))

    def launched(self, place: launch.NodePlace) -> launcher_options.Launched:
        """The command as it is started on this node: with the options of its launcher, or under torchrun."""
        request = self.request
        if request.launcher == "torchrun":
            return launcher_options.under_torchrun(self.argv, place, self._workers)
        name = request.command_launcher
        if name is None:
            return launcher_options.Launched(self.argv, {})
        launched = launcher_options.prepare(name, self.argv, place, self.launch_resources)
        own = self.private.environment  # variables that the person set are not replaced
        filled = {key: value for key, value in launched.environment.items() if key not in own}
        return launched._replace(environment=filled)

    @property
    def _workers(self) -> int:
        """The number of processes that torchrun starts on a node."""
        return int(self.request.procs or self.request.layout.gpus_per_node or 1)

    @property
    def launch_resources(self) -> launcher_options.LaunchResources:
        """What a launcher may use. The hostfiles are beside the working copy, so they are removed together
        with it.
        """
        files = launcher_options.Hostfiles(self.code + ".hostfile", self.code + ".hydra-hostfile")
        in_slurm = "SLURM_JOB_ID" in self.private.environment
        resources = launcher_options.resources_of(self.request, files, in_slurm=in_slurm)
        return resources.with_config_in(self.private.environment)

    def environment(self, place: launch.NodePlace, rank: int, more: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a rank's command. `more` comes from the launcher; gofer's own variables
        replace it.
        """
        tags = self.request.tags
        own = {
            "GOFER_RUN_DIR": os.path.join(self.store, run_layout.run_key(place.run_id)),
            "GOFER_OUTPUT_DIR": self.output_folder,
            "GOFER_TARGET": self.request.target,
            "GOFER_TAGS": ",".join(f"{k}={v}" if v else k for k, v in tags.items()),
            "PWD": self.workdir,
        }
        environment = {
            **default_variables(self.origin),
            **self.private.environment,
            **more,
            **launch.rank_environment(place, rank, launch.contract_of(self.request)),
            **launch.argument_environment(self.args),
            **commit_variables(self.origin),
            **own,
        }
        return lead_to_copy(environment, self.origin, self.argv, self.code)
