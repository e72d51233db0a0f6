"""scripts/setup names what is missing and installs nothing twice."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def machine(tmp_path):
    """A checkout, on a machine whose package manager is played by scripts."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup", tmp_path / "scripts/setup")
    tools = tmp_path / "tools"
    tools.mkdir()
    installed = tmp_path / "installed"
    installed.write_text("")

    def tool(name, script):
        (tools / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (tools / name).chmod(0o755)

    tool("dpkg-query", f'while read -r p; do echo "installed $p"; done <"{installed}"')
    tool("apt-cache", "echo '  Candidate: 1.0'")
    tool(
        "apt-get",
        f'echo "$*" >>"{tmp_path}/calls"\n'
        f'[ "$1" != install ] || printf "%s\\n" "${{@:4}}" >>"{installed}"',
    )
    tool("id", f'cat "{tmp_path}/uid"')
    tool("node", "echo v18.19.0")
    tool("npm", f'mkdir -p node_modules; echo "$*" >>"{tmp_path}/npm-calls"')
    (tmp_path / "package-lock.json").write_text("{}")

    def setup(*arguments, uid=0):
        (tmp_path / "uid").write_text(str(uid))
        return subprocess.run(
            [tmp_path / "scripts/setup", *arguments],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "CI": "true"},
            capture_output=True,
            text=True,
        )

    setup.calls = lambda: (
        (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
    )
    setup.npm_calls = lambda: (
        (tmp_path / "npm-calls").read_text().splitlines()
        if (tmp_path / "npm-calls").exists()
        else []
    )
    setup.tool = tool
    return setup


def test_root_installs_once(machine):
    first = machine("build")
    assert (first.returncode, len(machine.calls())) == (0, 1)
    assert machine.calls()[0].startswith("install --yes --no-install-recommends g++ make cmake ")
    assert "installing" in first.stderr
    second = machine("build")
    assert (second.returncode, second.stderr, len(machine.calls())) == (0, "", 1)


def test_a_build_gets_the_grammar_from_npm_once(machine):
    machine("build")
    machine("build")
    assert len(machine.npm_calls()) == 1
    assert machine.npm_calls()[0].startswith("ci --ignore-scripts ")
    assert "--omit=dev" in machine.npm_calls()[0]


def test_node_is_installed_for_a_build(machine):
    machine.tool("node", "exit 127")
    machine("build")
    assert machine.calls()[0].endswith(" nodejs npm")


def test_another_user_is_told_the_command(machine):
    done = machine("build", uid=1000)
    assert done.returncode == 4
    assert "  remedy: sudo apt-get install --yes --no-install-recommends g++ " in done.stderr
    assert machine.calls() == []


def test_another_user_needs_nothing_where_all_is_there(machine):
    machine("build")
    assert machine("build", uid=1000).returncode == 0


def test_lists_are_refreshed_only_if_a_package_cannot_be_had(machine):
    machine.tool("apt-cache", "echo '  Candidate: (none)'")
    assert machine("build").returncode == 0
    assert [call.split()[0] for call in machine.calls()] == ["update", "install"]


def test_what_cannot_be_installed_is_named(machine):
    machine.tool("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
    done = machine("build")
    assert done.returncode == 4
    assert "Unable to locate" in done.stderr and "remedy: apt-get" in done.stderr


def test_usage(machine):
    assert machine("everything").returncode == 2
