"""Slurm batch scripts on this machine: their resources are read, and what only Slurm has is named."""

from __future__ import annotations

from home import Home

SCRIPT = """#!/bin/bash
#SBATCH --array=1-3%2
#SBATCH --time=0:05:00 --mem=4G
#SBATCH --partition=gpu -J sweep
module load cuda
if [ -n "$SLURM_JOB_ID" ]; then srun true; fi
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT" "$@"
"""


def test_a_batch_script_runs_here_and_what_it_cannot_have_is_named_before_it_is_sent(home: Home) -> None:
    (home.folder / "job.sbatch").write_text(SCRIPT)
    bare = home.root / "bin"  # a PATH without Slurm's programs, whatever this machine has
    bare.mkdir()
    (bare / "bash").symlink_to("/bin/bash")
    done = home.gofer("submit", "--dry-run", "job.sbatch", "x", env={"PATH": str(bare)})
    for words in (
        "line 2: `--array=…%2` is not followed",
        "line 3: `--mem=4G` is not followed",
        "line 4: `--partition=gpu` is not followed",
        "job.sbatch uses `module`, `srun`, which `local` (kind `local`) may not have",
        "job.sbatch reads SLURM_JOB_ID, which only Slurm sets",
    ):
        assert words in done.err, (words, done.err)
    assert not (home.path / "store" / "runs").exists()
    group = home.gofer("submit", "-Q", "--wait", "job.sbatch", "x", status=None).out.strip()
    seen = home.view(group)
    assert (seen["name"], seen["rows"], seen["state"]) == ("sweep", 3, "succeeded")
    output = [home.log(f"{group}-{row}").splitlines()[-1] for row in range(3)]
    assert output == [f"{number} of 3 x" for number in (1, 2, 3)]


def test_the_interpreter_is_that_of_the_first_line(home: Home) -> None:
    text = "#!/usr/bin/env python3\n#SBATCH -t 5\nimport sys\nprint('python', sys.argv[1:])\n"
    (home.folder / "two words.py").write_text(text)
    run = home.gofer("submit", "-Q", "--wait", "two words.py", "-x").out.strip()
    assert home.log(run) == "python ['-x']\n"
    wrapped = home.gofer(
        "submit", "-Q", "--wait", "sbatch", "-J", "w", "--wrap", "echo $0 wrapped"
    ).out.strip()
    assert (home.log(wrapped), home.view(wrapped)["name"]) == ("sh wrapped\n", "w")


def test_a_script_that_slurm_refuses_is_refused(home: Home) -> None:
    (home.folder / "dos.sh").write_text("#!/bin/bash\r\n#SBATCH -N 1\r\necho\r\n")
    (home.folder / "bad.sh").write_text("#!/bin/bash\n#SBATCH --time=soon\necho\n")
    assert "Windows line ends" in home.gofer("submit", "dos.sh", status=1).err
    assert "`--time=soon` is not a time" in home.gofer("submit", "bad.sh", status=2).err
    assert "`sbatch` needs a script" in home.gofer("submit", "sbatch", "-N", "1", status=2).err


def test_what_a_shell_would_not_find_here_is_named_in_any_form_of_the_command(home: Home) -> None:
    bare = home.root / "bin"
    bare.mkdir()
    for name in ("bash", "sh"):
        (bare / name).symlink_to(f"/bin/{name}")
    (home.folder / "run.sh").write_text("module load cuda\nsrun python x.py\n")
    (home.folder / "run.sh").chmod(0o755)
    (home.folder / "model.py").write_text("# a model\nmodule = build()\n")
    (home.folder / "tool").write_text("#!/usr/bin/env python3\nmodule = build()\n")
    (home.folder / "tool").chmod(0o755)
    for words, name in (
        (["bash", "run.sh"], "run.sh"),
        (["./run.sh"], "./run.sh"),
        (["bash", "-lc", "module load cuda; srun true"], "the command"),
    ):
        message = home.gofer("submit", "--dry-run", *words, env={"PATH": str(bare)}).err
        assert f"warning: {name} uses `module`, `srun`, which `local` (kind `local`) may not have" in message
    for words in (["./tool"], ["python", "model.py"]):
        assert "may not have" not in home.gofer("submit", "--dry-run", *words).err
