"""Product code that nothing uses, and product code that only tests use.

A name counts as used wherever it occurs as a word: this finds only names that are certainly dead.
"""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("_native", "engine", "python", "bench", "docs")
# A message or record is its declaration: codecs find it in its module.
DECLARED = ("python/bowstring/protocol/messages/", "python/bowstring/protocol/records/")
# Names that product code does not use, each with its user.
CALLED_FROM_OUTSIDE = {
    "_missing_": "enum",
    "capture_signals": "uvicorn, of its server",
    "main_loop": "uvicorn, of its server",
    "on_headers_complete": "httptools, of its parser",
    "_index_key": "Numba, of its cache",
    "log_mark_corrupt": "nobody; half of the native modules depend on its file, so it goes with the next change there",
    "streamReader": "Spark, of a data source",
    "streamWriter": "Spark, of a data source",
    "bootstrap_controllers": "users of bowstring.Cluster, for tools that take --bootstrap-controller",
}
# Names that product code leaves to tests, each with the reason.
FOR_TESTS = {
    "_repr_html_": "notebooks call it",
    "data_received": "asyncio calls it, of a protocol",
    "controller_ids": "for users of bowstring.Cluster, beside broker_ids",
    "produce_batches": "for users of Producer who have encoded batches",
    "with_on_error": "for users of formats of values",
    "decode_end_txn_marker": "the reverse of what the coordinator writes",
    # C code that Python tests could not reach otherwise
    "crc32c_by": "each way to compute a CRC",
    "fetch_error": "a rule of replicas in C",
    "looks_compressed": "the check of compressed frames in C",
    "excess_ms": "the quota in C",
    "set_rate": "the quota in C",
    "siphash128": "the hash of the cleaner's map",
    "source_of": "the way by which a batch was decoded",
    "when_out_of_range": "a rule of replicas in C",
    **dict.fromkeys(
        ("ack_error", "set_eligible", "take_fetch", "take_lags"), "a replica set in C, step by step"
    ),
    **dict.fromkeys(("remove_topic", "update_partition"), "a data plane without a broker"),
    # other names that cannot be seen from outside
    "is_alarm_set": "whether an idle coordinator sleeps",
    "latest_snapshot": "when a snapshot is written",
    "maybe_roll": "rolls by age without an append",
    "open_files_max": "makes files scarce without 1,000 logs",
    "pooled_bytes": "what the pool of receive buffers keeps",
    "recent_bytes": "makes ranges of a few KiB old enough to be checked again",
    "wals": "the simulator looks into the write-ahead logs",
}
C_FUNCTION = re.compile(r"^ *(?:cdef|cpdef|def|async def)\b[^(=\n]*?(\w+)\(", re.M)


def texts(folders, *endings):
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            # Python has the folders at the top once more, by links.
            inner = set(path.relative_to(ROOT).parts[1:-1]) & {"_native", "engine", "__pycache__", "target"}
            if path.suffix in endings and not inner and path.is_file():
                found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


def words(files):
    found = Counter()
    for text in files.values():
        found.update(re.findall(r"\w+", text))
    return found


def defined(name, text):
    """Names of functions and classes; without commands and the like, which their decorators register."""
    if name.endswith((".pyx", ".pxd")):
        return C_FUNCTION.findall(text)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, functions if name.startswith(DECLARED) else (*functions, ast.ClassDef))
        and not any(isinstance(each, ast.Call) for each in node.decorator_list)
    ]


def test_product_code_is_used():
    product = texts(PRODUCT, ".py", ".pyx", ".pxd", ".h", ".html", ".java", ".md", ".toml")
    definitions = Counter()
    places = defaultdict(set)
    for file, text in product.items():
        if file.endswith((".py", ".pyx", ".pxd")) and not file.startswith(("bench/", "docs/")):
            for name in defined(file, text):
                definitions[name] += 1
                places[name].add(file)
    used, used_in_tests = words(product), words(texts(["tests"], ".py", ".pyx"))
    own = words({Path(__file__).name: Path(__file__).read_text(encoding="utf-8")})
    alone = {name for name, count in definitions.items() if used[name] <= count and not name.startswith("__")}
    dead = {name for name in alone if used_in_tests[name] <= own[name]}
    told = {name: sorted(places[name]) for name in alone}
    assert dead == set(CALLED_FROM_OUTSIDE), f"remove what nothing calls: {told}"
    assert alone - dead == set(FOR_TESTS), f"move what only tests call to tests/support: {told}"
