"""Work on large schemas goes on beside the event loop, with the same answers."""

import asyncio
import json
import random
import threading

import pytest

from bowstring.registry import parsed_schemas, schema_work
from bowstring.registry.operations import compatibility, configs, lookup, registration, versions
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.schema_work import Deferred, SchemaWorker, attempt
from tests.support.registry_log import RegistryLog, record_text
from tests.support.waiting import HANG_S

PROTO = 'syntax = "proto3"; message M { %s }'


@pytest.fixture
def worker():
    made = SchemaWorker()
    yield made
    made.close()


def bodies(rng, kind):
    names = rng.sample("abcdef", rng.randint(1, 4))
    if kind == "AVRO":
        text = record_text("R", *names)
        if rng.random() < 0.3:
            text = text.replace("{", "{ ", 1)
        return {"schema": text if rng.random() < 0.9 else text[:-1]}
    if kind == "JSON":
        members = {each: {"type": rng.choice(["string", "number"])} for each in names}
        return {"schemaType": kind, "schema": json.dumps({"type": "object", "properties": members})}
    fields = " ".join(f"string {each} = {number};" for number, each in enumerate(names, 1))
    return {"schemaType": kind, "schema": PROTO % fields}


def answer(call):
    try:
        return call()
    except RegistryError as error:
        return error.code, error.message


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
@pytest.mark.parametrize("allowed", [0, 200])
def test_answers_are_the_same_as_on_the_loop(kind, allowed, worker, monkeypatch):
    """With so little allowed, nearly every schema is parsed and compared in the thread."""
    monkeypatch.setattr(schema_work, "INLINE_CHARS_MAX", allowed)
    rng = random.Random(kind)
    here, beside = RegistryLog(), RegistryLog()
    for log in (here, beside):
        log.do(configs.decide_set_config, None, {"compatibility": "FULL_TRANSITIVE"})
    loop = asyncio.new_event_loop()

    def run(operation):
        return answer(lambda: loop.run_until_complete(worker.run(lambda: beside.image, operation)))

    def register(subject, body):
        decision = run(lambda image: registration.decide_register(image, subject, body))
        if not isinstance(decision[0], int):
            beside.keep(decision)
            return decision.answer
        return decision

    for _ in range(40):
        subject, body = rng.choice("st"), bodies(rng, kind)
        assert run(
            lambda image, s=subject, b=body: compatibility.check_subject(image, s, b, verbose=True)
        ) == answer(lambda s=subject, b=body: compatibility.check_subject(here.image, s, b, verbose=True))
        assert run(lambda image, s=subject, b=body: lookup.look_up(image, s, b)) == answer(
            lambda s=subject, b=body: lookup.look_up(here.image, s, b)
        )
        assert register(subject, body) == answer(
            lambda s=subject, b=body: here.do(registration.decide_register, s, b)
        )
        assert run(
            lambda image, s=subject: versions.schema_by_version(image, s, "latest", format="resolved")
        ) == answer(lambda s=subject: versions.schema_by_version(here.image, s, "latest", format="resolved"))
    loop.close()
    assert all(here.image.versions(each) for each in "st")
    assert here.records == beside.records


def test_a_request_has_its_own_results(worker, monkeypatch):
    """What others need meanwhile does not make it begin again."""
    monkeypatch.setattr(schema_work, "INLINE_CHARS_MAX", 0)
    log = RegistryLog()
    log.image.parsed = parsed_schemas.ParsedSchemas(count_max=1)
    log.do(configs.decide_set_config, None, {"compatibility": "BACKWARD_TRANSITIVE"})
    for number in range(20):
        log.do(
            registration.decide_register,
            "s",
            {"schema": record_text("R", *"abcdefghijklmnopqrstuvw"[:number])},
        )
    attempts = []

    def check(image):
        attempts.append(1)
        return compatibility.check_subject(image, "s", {"schema": record_text("R", "z")})

    assert asyncio.run(worker.run(lambda: log.image, check)) == {"is_compatible": True}
    assert len(attempts) == 3


def test_too_long_work_ends(worker, monkeypatch):
    monkeypatch.setattr(schema_work, "INLINE_CHARS_MAX", 0)
    monkeypatch.setattr(schema_work, "REQUEST_S", -1.0)
    log = RegistryLog()
    with pytest.raises(RegistryError) as late:
        asyncio.run(
            worker.run(
                lambda: log.image, lambda image: registration.decide_register(image, "s", {"schema": '"int"'})
            )
        )
    assert late.value.code == 50002


def test_a_caller_that_leaves_ends_its_work(worker):
    entered, seen = threading.Event(), []

    def work(is_over):
        entered.set()
        while not is_over():
            seen.append(threading.Event().wait(0.001))
        return {}

    def operation(_):
        raise Deferred(work)

    async def leave():
        task = asyncio.ensure_future(worker.run(lambda: RegistryLog().image, operation))
        await asyncio.to_thread(entered.wait, HANG_S)
        task.cancel()
        await asyncio.wait([task])
        return await worker.run(lambda: RegistryLog().image, lambda _: "next")

    assert asyncio.run(leave()) == "next"


def test_only_so_many_wait(worker, monkeypatch):
    monkeypatch.setattr(schema_work, "WAITING_MAX", 1)
    release = threading.Event()

    def work(_):
        release.wait(HANG_S)
        return {}

    def operation(_):
        raise Deferred(work)

    async def crowd():
        first = asyncio.ensure_future(worker.run(lambda: RegistryLog().image, operation))
        await asyncio.sleep(0)
        with pytest.raises(RegistryError, match="wait"):
            await worker.run(lambda: RegistryLog().image, operation)
        first.cancel()
        release.set()

    asyncio.run(crowd())


def test_an_operation_without_a_request_does_all_at_once():
    log = RegistryLog()
    long = {"schema": record_text("R", *(f"f{number}" for number in range(2000)))}
    log.do(registration.decide_register, "s", long)
    assert log.image.parsed.allowance is None
    with pytest.raises(Deferred):
        attempt(
            RegistryLog().image,
            lambda image: registration.decide_register(image, "s", long),
            schema_work.Allowance(),
        )


def test_what_waits_fails_when_the_worker_closes_and_its_thread_is_a_daemon(worker):
    entered, release = threading.Event(), threading.Event()

    def work(_):
        entered.set()
        release.wait(HANG_S)
        return {}

    def operation(_):
        raise Deferred(work)

    async def close():
        tasks = [asyncio.ensure_future(worker.run(lambda: RegistryLog().image, operation)) for _ in range(3)]
        await asyncio.to_thread(entered.wait, HANG_S)
        assert all(each.daemon for each in threading.enumerate() if "registry-schemas" in each.name)
        worker.close()
        release.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), HANG_S)

    assert [each.code for each in asyncio.run(close())] == [50001] * 3
