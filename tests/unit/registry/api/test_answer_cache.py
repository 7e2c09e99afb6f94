"""bowstring.registry.api.answer_cache: answers are kept for one state of the image, and bounded."""

from bowstring.registry.api import answer_cache
from bowstring.registry.api.answer_cache import AnswerCache, make_answer
from bowstring.registry.registry_image import RegistryImage


def answer(body=b"{}"):
    return make_answer(200, b"application/json", body, "/x")


def test_answers_are_dropped_with_the_next_record():
    image, cache = RegistryImage(), AnswerCache()
    cache.put(image, "a", answer(), 1)
    assert cache.get(image, "a") is not None
    assert cache.get(image, "b") is None
    image.apply(b'{"keytype":"NOOP","magic":0}', None, 0)
    assert cache.get(image, "a") is None
    cache.put(image, "a", answer(), 1)
    assert cache.get(RegistryImage(), "a") is None, "reading the topic again makes a new image"


def test_answers_are_bounded(monkeypatch):
    monkeypatch.setattr(answer_cache, "COUNT_MAX", 10)
    monkeypatch.setattr(answer_cache, "BYTES_MAX", 1000)
    image, cache = RegistryImage(), AnswerCache()
    for number in range(25):
        cache.put(image, number, answer(), 1)
        assert len(cache) <= 10
    assert cache.get(image, 24) is not None
    cache = AnswerCache()
    for number in range(25):
        cache.put(image, number, answer(b"x" * 300), 100)
        assert len(cache) <= 2
    monkeypatch.setattr(answer_cache, "ANSWER_BYTES_MAX", 500)
    cache.put(image, "large", answer(b"x" * 600), 1)
    assert cache.get(image, "large") is None


def test_an_answer_without_content_has_no_headers_of_one():
    made = make_answer(204, b"application/json", b"ignored", "/x")
    assert (made.start["headers"], made.body["body"]) == ([], b"")
