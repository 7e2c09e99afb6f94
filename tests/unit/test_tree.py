"""The tree is checked like the code: import direction, sizes, formatting, types."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.packages import FACADE, NATIVE_PACKAGES, PARTS, PYTHON_PACKAGES
from tests.support.waiting import FOR_EVER_S, HANG_S

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("engine", "python/bowstring", "bench", "docs", "tests")
    for path in (ROOT / folder).rglob("*.py")
]
SOURCES = [path for path in SOURCES if not ({"_native", "engine"} & set(path.relative_to(ROOT).parts[1:]))]
NATIVE = sorted([*(ROOT / "_native").rglob("*.pyx"), *(ROOT / "_native").rglob("*.pxd")])
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 60
FILE_BYTES_MAX = 256 << 10
# A core takes time, I/O and randomness as arguments.
PURE = (
    *("engine/controller", "engine/groups", "engine/metadata", "python/bowstring/protocol", "engine/raft"),
    *("engine/replication", "engine/share/", "engine/transactions"),
)
SHELLS = (
    *("engine/controller/service.py", "engine/groups/service.py", "engine/metadata/store/"),
    *("engine/share/coordinator/service.py", "engine/share/latest_offsets.py"),
    *("engine/share/leader/", "engine/share/persister/network.py"),
    *(f"engine/transactions/{name}.py" for name in ("marker_sender", "marker_writer", "service", "verifier")),
)
IMPURE_MODULES = {"asyncio", "socket", "time", "random", "threading", "selectors", "uvloop"}

# Each takes some 0.15 ms of a start.
MODULES_AT_START = 300


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


# The layers under the programs, and what each may import.
BELOW = {
    "engine/": "engine|protocol|security|version|_native",
    "python/bowstring/protocol/": "protocol|_native",
}


def test_imports_point_one_way():
    wrong = []
    for path in SOURCES:
        for folder, below in BELOW.items():
            if relative(path).startswith(folder):
                for module in imports(path):
                    if module.startswith("bowstring") and not re.match(rf"bowstring\.({below})\b", module):
                        wrong.append(f"{relative(path)} imports {module}")
    for path in NATIVE:
        for module in re.findall(r"^(?:from|import|cimport) (bowstring\S*)", path.read_text(), re.M):
            if not module.startswith("bowstring._native"):
                wrong.append(f"{relative(path)} imports {module}")
    assert not wrong, "\n".join(wrong)


def module_of(path: Path) -> str:
    """`clients.net.client` for python/bowstring/clients/net/client.py, `bowstring` for python/bowstring/__init__.py."""
    place = relative(path).removeprefix("python/bowstring/").removesuffix(".py").replace("/", ".")
    return place.removesuffix(".__init__").replace("__init__", "bowstring")


MODULES = {module_of(path): path for path in SOURCES if relative(path).startswith(("engine/", "python/"))}


def package_of(module: str) -> str:
    """The package that a module, or a name in it, belongs to."""
    if module.startswith("_native."):
        return ".".join(module.split(".")[:2])
    while module not in MODULES and "." in module:
        module = module.rpartition(".")[0]
    if module in MODULES and MODULES[module].name != "__init__.py" and "." in module:
        module = module.rpartition(".")[0]
    if module not in MODULES:
        return "bowstring"  # one of its public names
    return next((part.rpartition(".")[0] for part in PARTS if module.startswith(part)), module)


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {
        package_of(name.removeprefix("bowstring."))
        for name in found
        if name == "bowstring" or name.startswith("bowstring.")
    }


def test_python_packages_import_what_they_may():
    wrong, unused = [], {(a, b) for a, allowed in PYTHON_PACKAGES.items() for b in allowed}
    for module, path in MODULES.items():
        package = package_of(module)
        if package in FACADE:
            continue
        for other in imported_packages(path) - {package}:
            unused.discard((package, other))
            if other not in PYTHON_PACKAGES.get(package, ()):
                wrong.append(f"{relative(path)} imports {other}")
    assert not wrong, "not in the lists of packages above:\n" + "\n".join(sorted(wrong))
    assert not unused, f"allowed, but nobody does it: {sorted(unused)}"


def test_native_packages_import_what_they_may():
    wrong, unused = [], {(a, b) for a, allowed in NATIVE_PACKAGES.items() for b in allowed}
    for path in NATIVE:
        package = path.parent.name
        for other in re.findall(r"^\s*from bowstring\._native\.(\w+)", path.read_text(), re.M):
            unused.discard((package, other))
            if other != package and other not in NATIVE_PACKAGES[package]:
                wrong.append(f"{relative(path)} imports {other}")
    assert not wrong, "not in NATIVE_PACKAGES:\n" + "\n".join(sorted(set(wrong)))
    assert not unused, f"allowed, but nobody does it: {sorted(unused)}"


@pytest.mark.parametrize("packages", [NATIVE_PACKAGES, PYTHON_PACKAGES], ids=["native", "python"])
def test_packages_do_not_go_in_circles(packages):
    done: set[str] = set()

    def visit(package: str, above: tuple[str, ...]) -> None:
        assert package not in above, " imports ".join((*above, package))
        if package not in done:
            for other in packages.get(package, ()):
                visit(other, (*above, package))
            done.add(package)

    for package in packages:
        visit(package, ())


# Of a package with importers in this many packages of engine or clients, its docstring says `engine.*`.
MANY_IMPORTERS = 4


def short_names(package: str, names: set[str]) -> set[str]:
    """Names as the docstring of a package has them: without the `engine.` or `clients.` that it has itself."""
    top = package.partition(".")[0]
    return {name.removeprefix(f"{top}.") if top in ("engine", "clients") else name for name in names}


def importers(package: str, packages: dict[str, set[str]]) -> set[str]:
    """The importers of a package, in the form of its docstring."""
    found = {other for other, allowed in packages.items() if package in allowed}
    for top in ("engine", "clients"):
        inner = {name for name in found if name.startswith(f"{top}.")}
        if len(inner) >= MANY_IMPORTERS:
            found = found - inner | {f"{top}.*"}
    return {name if name.endswith(".*") else next(iter(short_names(package, {name}))) for name in found}


def stated(docstring: str, label: str) -> set[str]:
    """The names in `Imported by: a, b.` or `May import: a, b.`; none for words such as `nothing`."""
    found = re.search(rf"^{label}: ([^:]+?)\.$", docstring, re.M)
    assert found, f"no line `{label}: ….`"
    names = {" ".join(name.split()) for name in found[1].split(",")}
    return {name for name in names if " " not in name and name not in ("nothing", "nobody")}


PACKAGE_FOLDERS = [(ROOT / "_native" / name, name, NATIVE_PACKAGES) for name in NATIVE_PACKAGES] + [
    (MODULES[name].parent, name, PYTHON_PACKAGES)
    for name in PYTHON_PACKAGES
    if MODULES[name].name == "__init__.py"
]


@pytest.mark.parametrize(
    ("folder", "package", "packages"), PACKAGE_FOLDERS, ids=[relative(each[0]) for each in PACKAGE_FOLDERS]
)
def test_packages_say_what_they_are(folder, package, packages):
    """Three lines in __init__.py: its purpose, its importers, and what it may import."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert stated(docstring, "May import") == short_names(package, packages[package])
    assert stated(docstring, "Imported by") == importers(package, packages)


NATIVE_CONSTANT = re.compile(r"^    ([A-Z][A-Z0-9_]+) = ([^#\n]+?) *(?:#.*)?$", re.M)
NATIVE_ARRAY = re.compile(
    r"^\s+(?:cdef )?(?:const )?[A-Za-z_]\w*\s*(?:\[(\d+)\])?\s*\*?\s*(\w+)\s*(?:\[(\d+)\])?$"
)
# Sizes that arrays everywhere use; otherwise only a module's own constants count.
SIZES_OF_ALL = {"PATH_BYTES": 4096, "BATCH_HEADER_BYTES": 61}
UUID_FIELDS = {"id", "topic_id"}


def test_native_error_codes_have_one_home():
    """base/error_codes.pxd, which tests/unit/base/test_error_codes.py compares with python/bowstring/protocol/errors.py."""
    from bowstring.protocol.errors import Errors

    codes = {name: str(row.code) for name, row in vars(Errors).items() if hasattr(row, "code")}
    wrong = [
        f"{relative(path)}: {name} = {value}"
        for path in NATIVE
        if path.name != "error_codes.pxd"
        for name, value in NATIVE_CONSTANT.findall(path.read_text())
        if name in codes or any(code == value and row.endswith(f"_{name}") for row, code in codes.items())
    ]
    assert not wrong, "cimport these from bowstring._native.base.error_codes:\n" + "\n".join(wrong)


def test_native_constants_have_one_home():
    """A name with one value is defined in one module; *_FROM, a feature's first API version, in each."""
    homes: dict[tuple[str, str], set[str]] = {}
    for path in NATIVE:
        for name, value in NATIVE_CONSTANT.findall(path.read_text()):
            if not name.endswith("_FROM"):
                homes.setdefault((name, value), set()).add(relative(path))
    wrong = [f"{name} = {value}: {sorted(paths)}" for (name, value), paths in homes.items() if len(paths) > 1]
    assert not wrong, "define these once and cimport them:\n" + "\n".join(sorted(wrong))


def test_native_arrays_are_sized_by_the_constant():
    """No array is declared with the bare value of a constant of its module."""
    wrong = []
    for path in NATIVE:
        module = "".join(
            twin.read_text() for suffix in (".pxd", ".pyx") if (twin := path.with_suffix(suffix)).exists()
        )
        sizes = {int(value): name for name, value in NATIVE_CONSTANT.findall(module) if value.isdigit()}
        sizes |= {value: name for name, value in SIZES_OF_ALL.items()}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = NATIVE_ARRAY.match(line.partition("#")[0].rstrip())
            if match and match[2] not in UUID_FIELDS and not line.lstrip().startswith("return"):
                wrong += [
                    f"{relative(path)}:{number}: {line.strip()}: {sizes[int(size)]}"
                    for size in (match[1], match[3])
                    if size and int(size) > 2 and int(size) in sizes
                ]
    assert not wrong, "write the constant, not its value:\n" + "\n".join(wrong)


def test_cores_are_pure():
    wrong = [
        f"{relative(path)} imports {sorted(bad)}"
        for path in SOURCES
        if relative(path).startswith(PURE)
        and not relative(path).startswith(SHELLS)
        and (bad := {m.split(".")[0] for m in imports(path)} & IMPURE_MODULES)
    ]
    assert not wrong, "\n".join(wrong)


def _is_empty(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method does nothing, or only raises."""
    work = [
        each
        for each in method.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    return not work or (len(work) == 1 and isinstance(work[0], (ast.Pass, ast.Raise)))


def _classes() -> dict[str, list[tuple[str, list[str], dict[str, bool]]]]:
    """Files, names of the bases, and for each method whether it is empty, by the name of the class."""
    found: dict[str, list[tuple[str, list[str], dict[str, bool]]]] = {}
    for path in SOURCES:
        if relative(path).startswith(("engine/", "python/")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                    methods = {
                        each.name: _is_empty(each)
                        for each in node.body
                        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                    }
                    found.setdefault(node.name, []).append((relative(path), bases, methods))
    return found


def test_no_method_cancels_the_one_that_it_overrides():
    """A subclass must not disable its parent's method by one that raises or does nothing."""
    classes = _classes()

    def works(bases: list[str], method: str, seen: frozenset[str]) -> bool:
        return any(
            not methods.get(method, True) or works(more, method, seen | {base})
            for base in bases
            if base not in seen
            for _, more, methods in classes.get(base, ())
        )

    wrong = [
        f"{path}: {name}.{method}"
        for name, defined in classes.items()
        for path, bases, methods in defined
        for method, is_empty in methods.items()
        if is_empty and works(bases, method, frozenset({name}))
    ]
    assert not wrong, "\n".join(wrong)


def test_background_tasks_of_the_broker_log_their_failures():
    """`background.spawn` does; a bare task that nobody awaits ends without a word. Each request has a task of
    its own, whose failure `Dispatcher` logs; a write of the metadata log is awaited."""
    bare = [
        relative(path)
        for path in SOURCES
        if relative(path).startswith("engine/")
        and re.search(r"\b(create_task|ensure_future)\(", path.read_text())
    ]
    assert sorted(bare) == [
        "engine/background.py",
        "engine/broker/dispatcher.py",
    ]


# What stood for a second kind of broker, which wrote a metadata log of its own.
OF_TWO_KINDS = ("LoneBroker", "ClusterBroker", "OwnChanges", "BY_BROKER_ALONE", "NodeAlone")


def test_there_is_one_kind_of_broker():
    """A node alone is a cluster of one: its controller decides, and its quorum writes the metadata log."""
    wrong = []
    for module, path in MODULES.items():
        text = path.read_text()
        wrong += [f"{module} names {word}" for word in OF_TWO_KINDS if re.search(rf"\b{word}\b", text)]
        wrong += [
            f"{module}.{node.name} is a {base}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef)
            for base in map(ast.unparse, node.bases)
            if base.rpartition(".")[2] == "Broker"
        ]
    assert not wrong, "\n".join(wrong)


def test_only_the_quorum_writes_the_metadata_log():
    """Outside engine/storage, which has the logs of partitions, one module opens a log."""
    writers = [
        relative(path)
        for module, path in MODULES.items()
        if not module.startswith("engine.storage.") and "PartitionLog(" in path.read_text()
    ]
    assert writers == ["engine/quorum/log.py"]


def test_nodes_connect_in_one_place():
    """It holds TLS and SASL between nodes."""
    found = [
        relative(path)
        for path in SOURCES
        if relative(path).startswith("engine/") and "open_connection(" in path.read_text()
    ]
    assert found == ["engine/network/connection.py"]


# Places that must use ApiKeys rather than bare integers: the messages and the table of APIs.
WITH_API_KEYS = (
    "engine/api/",
    *(
        f"engine/broker/{name}.py"
        for name in ("broker", "controller_node", "dispatcher", "node", "request_handlers")
    ),
    "python/bowstring/protocol/frames.py",
    "python/bowstring/protocol/headers.py",
    "python/bowstring/protocol/versions.py",
    "engine/quorum/",
    "engine/requests/",
    "docs/generate/apis.py",
)


def integers(node: ast.expr | None) -> bool:
    """Whether this is an integer, or a tuple, list, set or frozenset of them."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("frozenset", "set", "tuple") and node.args:
        node = node.args[0]
    elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return bool(elements) and all(
        isinstance(each, ast.Constant) and type(each.value) is int for each in elements
    )


def bare_api_keys(tree: ast.Module) -> set[int]:
    """The lines with an integer that stands for an API: compared with a key, named a key, in a table or a set."""
    key = re.compile(r"(^|[._])(api_)?key(_\w+)?$", re.IGNORECASE)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            is_bare = key.search(ast.unparse(node.left)) and any(map(integers, node.comparators))
        elif isinstance(node, ast.Subscript):
            table = ast.unparse(node.value).rpartition(".")[2]
            is_bare = table in ("API_VERSIONS", "TABLE", "handlers") and integers(node.slice)
        elif isinstance(node, ast.Dict):
            is_bare = bool(node.keys) and all(map(integers, node.keys))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("fromkeys"):
            is_bare = bool(node.args) and integers(node.args[0])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            is_set = isinstance(node.value, ast.Set | ast.Call) and integers(node.value)
            is_bare = is_set or (key.search(ast.unparse(target)) and integers(node.value))
        else:
            continue
        if is_bare:
            found.add(node.lineno)
    return found


def test_api_keys_have_names():
    sources = [path for path in SOURCES if relative(path).startswith(WITH_API_KEYS)]
    assert len(sources) > 60
    wrong = [
        f"{relative(path)}:{line}"
        for path in sources
        for line in sorted(bare_api_keys(ast.parse(path.read_text())))
    ]
    assert not wrong, "write ApiKeys.NAME, or a column of engine/api/table.py: " + ", ".join(wrong)


@pytest.mark.parametrize(
    "bare",
    [
        "HANDLERS: Final[dict[int, str]] = {2: 'list_offsets'}",
        "FORWARDED_KEYS: Final = frozenset({19, 20})",
        "_NEVER_GUESSED = {0, 22}",
        "_API_VERSIONS_KEY: Final = 18",
        "_OWN = {**dict.fromkeys((62, 63), 'heartbeats')}",
        "name = API_VERSIONS[18].name",
        "if request.api_key == 63: pass",
        "if key in (0, 22): pass",
    ],
)
def test_bare_api_keys_are_found(bare):
    assert bare_api_keys(ast.parse(bare)) == {1}


# What starts brokers, or works on the directories of one that is stopped.
WITH_THE_ENGINE = {
    *(
        f"python/bowstring/{name}.py"
        for name in ("broker", "broker_children", "serve", "supervised_child", "service_manager", "signals")
    ),
    *(f"python/bowstring/cluster/{name}.py" for name in ("cluster", "layout", "secure_cluster", "voters")),
    *(f"python/bowstring/cli/{name}.py" for name in ("cluster", "format", "migrate_dir", "quorum", "scrub")),
}


def test_what_starts_no_broker_does_not_name_the_engine():
    """Clients and tools use the protocol. Strings count, too: a module may be imported by its name."""
    found = {
        relative(path)
        for path in SOURCES
        if relative(path).startswith("python/")
        and re.search(r"\bbowstring(\.| import (\w+, )*)engine\b", path.read_text())
    }
    assert found == WITH_THE_ENGINE


def test_clients_run_without_the_engine():
    """Nor do their imports load it."""
    code = (
        "import sys, bowstring.aio, bowstring.cli.app, bowstring.spark\n"
        "bowstring.cli.app.application()\n"
        "from bowstring import Admin, Consumer, Producer, ShareConsumer, read, transform\n"
        "print(*(name for name in sys.modules if name.startswith('bowstring.engine')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert ran.stdout.split() == []


def test_clients_do_not_import_the_table_of_apis():
    """The table belongs to the broker: clients need only an API's messages."""
    wrong = [
        relative(path)
        for path in SOURCES
        if relative(path).startswith("python/")
        and any(module.startswith("bowstring.engine.api") for module in imports(path))
    ]
    assert not wrong


def test_file_lengths():
    long = [
        f"{relative(path)}: {count} lines"
        for path in [*SOURCES, *NATIVE]
        if (count := len(path.read_text().splitlines())) > FILE_LINES_MAX
    ]
    assert not long, f"files over {FILE_LINES_MAX} lines; split them by subject:\n" + "\n".join(long)


def tracked() -> list[Path]:
    """Existing files of the repository: an uncommitted change may have removed some."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=FOR_EVER_S,
    ).stdout.split("\0")
    paths = [ROOT / name for name in names if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def test_file_sizes():
    large = {relative(path): path.stat().st_size for path in tracked()}
    large = {path: size for path, size in large.items() if size > FILE_BYTES_MAX}
    assert not large, f"files over {FILE_BYTES_MAX} bytes: keep them elsewhere, or the part that is read"


# ---------------------------------------------------------------- reports

REPORTS = ROOT / "perf_reports"
REPORT = re.compile(r"\d{4}-\d\d-\d\d-(?P<bench>[\w-]+)")


def test_each_bench_has_its_newest_report():
    """Older ones are in Git's history."""
    of_bench: dict[str, list[str]] = {}
    for name in sorted({path.relative_to(REPORTS).parts[0] for path in tracked() if REPORTS in path.parents}):
        found = REPORT.fullmatch(name)
        assert found, f"perf_reports/{name}: name it <date>-<machine>-<bench>"
        of_bench.setdefault(found["bench"], []).append(name)
    older = [name for names in of_bench.values() for name in names[:-1]]
    assert not older, (
        "reports of benches that have newer ones: git rm -r them, and mend the pages that name them"
    )


def test_reports_are_text_and_compact():
    files = [path for path in tracked() if REPORTS in path.parents]
    assert {path.name for path in files} <= {"report.md", "report.json"}, "docs show no picture of a report"
    indented = [
        relative(path) for path in files if path.suffix == ".json" and path.read_text().count("\n") > 1
    ]
    assert not indented, "bench.report_files.compact writes JSON for reports"


def test_reports_that_are_named_are_there():
    """In docs, code and tests; `*` stands for a date and a machine."""
    named = {
        (relative(path), name.rstrip("."))
        for path in tracked()
        if path.suffix in (".md", ".py", ".svg", ".html") and REPORTS not in path.parents
        for name in re.findall(r"perf_reports/([\w*.-]*\d[\w.-]*|\*[\w-]+)", path.read_text(encoding="utf-8"))
    }
    missing = sorted((path, name) for path, name in named if not list(REPORTS.glob(name)))
    assert not missing, "reports that are gone: name a newer one, or Git's history"


def native_functions(path: Path):
    """Name, first line and length of each top-level or method definition in a Cython file."""
    lines = path.read_text().splitlines()
    start = None
    for number, line in enumerate([*lines, "end"]):
        if start is not None and line.strip() and not line.startswith((" " * (start[2] + 1), ")", "#")):
            yield start[0], start[1] + 1, number - start[1]
            start = None
        match = re.match(r"( *)(?:cdef|cpdef|def)\b(?! class\b)[^=]*?(\w+)\(.*", line)
        if match and start is None and (line.rstrip().endswith((":", ",", "(")) or "noexcept" in line):
            start = (match[2], number, len(match[1]))


def test_function_lengths():
    long = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long.append(f"{relative(path)}:{node.lineno} {node.name} {length}")
    for path in NATIVE:
        long += [
            f"{relative(path)}:{line} {name} {length}"
            for name, line, length in native_functions(path)
            if length > FUNCTION_LINES_MAX
        ]
    assert not long, f"functions over {FUNCTION_LINES_MAX} lines:\n" + "\n".join(long)


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", "python/bowstring", "bench", "docs", "tests"],
        ["tests.native_lint"],
        ["tests.native_stubs"],
    ],
    ids=["ruff-check", "ruff-format", "mypy", "cython-lint", "stubtest"],
)
def test_tools_agree(command):
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FOR_EVER_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]


def test_broker_start_imports_are_light():
    code = (
        "import sys, bowstring, bowstring.serve, bowstring.serve_options\n"
        "bowstring.Broker\n"
        "bowstring.serve_options.parser().parse_args([])\n"
        "heavy = {'pyarrow', 'numba', 'pyspark', 'typer', 'rich', 'prometheus_client', 'numpy', 'pandas'}\n"
        "of_python = {'dataclasses', 'decimal', 'random', 'shutil', 'tempfile'}\n"
        "print(sorted((heavy | of_python) & set(sys.modules)))\n"
        "print(sum(name.startswith('bowstring') for name in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    found, modules = ran.stdout.splitlines()
    assert found == "[]"
    assert int(modules) <= MODULES_AT_START, "a start imports more modules: import what it may not need late"
