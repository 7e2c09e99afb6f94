"""Seeded fuzzing of Avro schemas against Apache Avro for Java, which pyspark brings along.

By hand: BOWSTRING_FUZZ_CASES=100000 pytest -s tests/fuzz/test_avro_schemas_fuzz.py. A failure shows the schemas.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pyspark

from bowstring.schemas.avro import parse
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.resolved_reference import ResolvedReference
from tests.support.random_avro import RandomAvro
from tests.support.waiting import HANG_S

PROBE = Path(__file__).with_name("java") / "AvroProbe.java"
JARS = Path(pyspark.__file__).with_name("jars")
NEEDED = ("avro-1", "jackson-core-2", "jackson-databind-2", "jackson-annotations-2", "slf4j-api", "commons-")
CASES = int(os.environ.get("BOWSTRING_FUZZ_CASES", "1000"))
SEED = int(os.environ.get("BOWSTRING_FUZZ_SEED", "29"))


def answers(lines):
    """What Java says to each line."""
    jars = sorted(str(jar) for name in NEEDED for jar in JARS.glob(f"{name}*.jar"))
    done = subprocess.run(
        ["java", "-Xss8m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(jars), str(PROBE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    found = done.stdout.split("\n")[:-1]
    assert len(found) == len(lines)
    return found


def word(text):
    return b64encode(text.encode()).decode()


def ours(text, references, is_new):
    resolved = [ResolvedReference(str(n), "s", 1, each) for n, each in enumerate(references)]
    try:
        return parse(text, resolved, is_new=is_new).canonical
    except InvalidSchemaError:
        return None


def test_schemas_are_accepted_and_written_as_by_java():
    rng = random.Random(SEED)
    cases = []
    for _ in range(CASES):
        # Which names a stored schema may have is Confluent's rule, not Java's.
        is_new = rng.random() < 0.7
        schemas = RandomAvro(rng, odd=0.02 if is_new else 0)
        references = [json.dumps(schemas.record(2)) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        of = schemas.record() if rng.random() < 0.8 else schemas.type()
        cases.append((json.dumps(of, ensure_ascii=rng.random() < 0.5), references, is_new))
    lines = [
        " ".join(["parse", "new" if is_new else "stored", word(text), *map(word, references)])
        for text, references, is_new in cases
    ]
    accepted = 0
    for case, answer in zip(cases, answers(lines), strict=True):
        theirs = None if answer == "error" else b64decode(answer).decode()
        assert ours(*case) == theirs, case
        accepted += theirs is not None
    assert accepted > CASES // 4


def test_differences_are_javas():
    rng = random.Random(SEED)
    schemas = RandomAvro(rng, odd=0)
    pairs = []
    while len(pairs) < CASES:
        first = schemas.record()
        second = schemas.record() if rng.random() < 0.2 else schemas.changed(first)
        try:
            # As Java will get them: what is defined twice, equally, is one object then.
            pairs.append([parse(parse(json.dumps(each)).canonical) for each in (first, second)])
        except InvalidSchemaError:
            continue
    lines = [f"compare {word(reader.canonical)} {word(writer.canonical)}" for reader, writer in pairs]
    incompatible = 0
    for (reader, writer), answer in zip(pairs, answers(lines), strict=True):
        found = ";".join(f"{each.kind} {each.path}" for each in reader.differences(writer))
        incompatible += bool(found)
        # Java ends a check where name and aliases of a field match several.
        assert found == answer or (answer == "error" and found), (reader.canonical, writer.canonical)
    assert incompatible > CASES // 5
