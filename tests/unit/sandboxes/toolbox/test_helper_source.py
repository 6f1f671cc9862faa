"""The helper runs on Python 3.8, on the standard library alone, from one file."""

import ast
import importlib.util
import subprocess
import sys

import pytest

from sandboxes.toolbox.bundle import HELPER, bundle, bundle_id, quick_bundle

SOURCES = sorted(HELPER.glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_it_is_python_3_8_and_imports_the_standard_library_alone(source):
    tree = ast.parse(source.read_text(), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add((node.module or "").split(".")[0])
    assert imported <= set(sys.stdlib_module_names)


def test_the_bundle_is_the_same_every_time_and_runs(tmp_path):
    file = tmp_path / "toolbox.pyz"
    file.write_bytes(bundle())
    done = subprocess.run([sys.executable, "-I", "-S", str(file), "--help"], capture_output=True, text=True, check=True)
    assert "serve" in done.stdout
    packed, first = bundle(), bundle_id()
    bundle.cache_clear()
    bundle_id.cache_clear()
    assert (bundle(), bundle_id()) == (packed, first)


OTHER_PYTHON = (1000).to_bytes(2, "little") + b"\r\n"
"""What the byte code of a Python begins with that is not this one."""


@pytest.mark.parametrize(("of", "taken"), [(importlib.util.MAGIC_NUMBER, ".pyc"), (OTHER_PYTHON, ".py")])
def test_byte_code_is_taken_by_the_python_that_it_is_of(tmp_path, of, taken):
    file = tmp_path / "toolbox.pyz"
    file.write_bytes(quick_bundle().replace(importlib.util.MAGIC_NUMBER, of))
    look = f"import sys; sys.path.insert(0, {str(file)!r}); import helper.server as one; print(one.__file__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == f"{file}/helper/server{taken}\n"


def test_it_does_not_end_processes_of_a_namespace_that_is_not_its_own(tmp_path):
    """It would refuse its socket, too, if it came so far: nothing here is left to be ended."""
    file = tmp_path / "toolbox.pyz"
    file.write_bytes(bundle())
    serve = ["serve", "--namespace", "--listen-fd", "99", "--state", str(tmp_path), "--workdir", str(tmp_path)]
    done = subprocess.run([sys.executable, "-I", "-S", str(file), *serve], capture_output=True, text=True, check=False)
    assert (done.returncode, "--namespace is for" in done.stderr) == (1, True)
