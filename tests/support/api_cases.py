"""Requests that an OpenAPI document allows, and some that it does not: answers must be those that it names."""

import hashlib
import json
from contextlib import suppress
from functools import partial

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.waiting import HANG_S

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def chosen(values, of):
    """Returns one of some values, always the same for one object."""
    return values[int(hashlib.md5(repr(of).encode()).hexdigest(), 16) % len(values)]


def check_answers(url, known, adapt, examples, texts=()):
    """Sends requests of every operation of the document at `/openapi.json`; returns how many.

    Args:
        url: of the API.
        known: values by name of a parameter of the path: most requests have one of them.
        adapt: changes a case, so that it is not refused at once, or does not wait.
        texts: names of operations whose answers may be no JSON.
        examples: requests of each operation; a third of them has something that the document does not allow.
    """
    document = schemathesis.openapi.from_url(f"{url}/openapi.json")
    count = 0

    def send(checks, case):
        nonlocal count
        count += 1
        for name, value in case.path_parameters.items():
            if name in known and chosen(range(8), value):
                case.path_parameters[name] = chosen(known[name], (value, count))
        adapt(case)
        case.call_and_validate(checks=checks, timeout=HANG_S)

    for found in document.get_all_operations():
        operation = found.ok()
        is_text = operation.definition.raw["operationId"] in texts
        checks = [each for each in CHECKS if not is_text or each is not response_schema_conformance]
        wrong = examples // 3
        for mode, number in (GenerationMode.POSITIVE, examples - wrong), (GenerationMode.NEGATIVE, wrong):
            cases = operation.as_strategy(generation_mode=mode)
            # Nothing can be wrong about requests without parameters.
            with suppress(Unsatisfiable):
                _run(partial(send, checks), cases, number)
    return count


def _run(send, cases, examples):
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def run(case):
        send(case)

    run()


def change_body(case, change):
    """Lets a function change the object that is a body, if it is one."""
    if isinstance(case.body, dict):
        case.body = change(json.loads(json.dumps(case.body)))
