"""`{output}` in a command, as a person types it."""

from __future__ import annotations

from home import Home

SAID = "`{output}` in the command is the folder of outputs, $GOFER_OUTPUT_DIR"


def test_a_command_writes_to_its_outputs_by_name(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "--wait", "cp", "/bin/true", "{output}/a prog")
    assert SAID in done.err.splitlines()
    run = home.view("last")
    assert run["command"][-1] == "{output}/a prog"
    assert (home.run_folder(run["id"]) / "outputs" / "a prog").exists()
    plain = home.gofer("submit", "--no-code", "--wait", "echo", "{{output}}", "${output}", "a {output}")
    assert "folder of outputs" not in plain.err
    assert home.log("last") == "{{output}} ${output} a {output}\n"


def test_rows_have_their_own_and_a_column_of_that_name_wins(home: Home) -> None:
    words = ["submit", "--no-code", "--wait", "--each"]
    done = home.gofer(*words, "x=1,2", "dd", "if=/dev/null", "of={output}/{x}")
    assert SAID in done.err.splitlines()
    group = home.view("last")["id"]
    for row in (0, 1):
        assert (home.run_folder(f"{group}-{row}") / "outputs" / str(row + 1)).exists()
    done = home.gofer(*words, "output=a,b", "echo", "--dir={output}")
    assert "is the column of the array, not the folder of outputs" in done.err
    assert home.log(f"{home.view('last')['id']}-1") == "--dir=b\n"
