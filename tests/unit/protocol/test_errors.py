"""The error table. That it is Kafka's is checked in test_java.py."""

import pickle

from bowstring.protocol.errors import Error, Errors, KafkaError


def test_rows_know_their_names():
    assert Errors.UNKNOWN_TOPIC_OR_PARTITION.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert Errors.UNKNOWN_TOPIC_OR_PARTITION.code == 3
    assert Errors.UNKNOWN_TOPIC_OR_PARTITION.retriable
    assert repr(Errors.NONE) == "Errors.NONE"


def test_a_row_keeps_its_name_as_the_default_of_a_field():
    class Answer:
        error = Errors.NONE

    assert Answer.error is Errors.NONE
    assert (Errors.NONE.name, Errors.of(0)) == ("NONE", Errors.NONE)


def test_lookup_by_code():
    rows = [row for row in vars(Errors).values() if isinstance(row, Error)]
    assert [Errors.of(row.code) for row in rows] == rows
    assert len({row.code for row in rows}) == len(rows) == len(Errors.BY_CODE)
    assert Errors.of(30000) is Errors.UNKNOWN_SERVER_ERROR


def test_only_none_is_no_error():
    assert [row for row in Errors.BY_CODE.values() if not row] == [Errors.NONE]


def test_every_message_is_a_sentence_of_its_own():
    messages = [row.message for row in Errors.BY_CODE.values()]
    assert len(set(messages)) == len(messages)
    assert all(text.endswith(".") for text in messages)


def test_exception():
    error = KafkaError(Errors.REQUEST_TIMED_OUT, "after 3 s")
    assert (error.code, error.retriable, error.error) == (7, True, Errors.REQUEST_TIMED_OUT)
    assert str(error) == "REQUEST_TIMED_OUT (7): after 3 s"
    assert Errors.REQUEST_TIMED_OUT.message in str(KafkaError(Errors.REQUEST_TIMED_OUT))
    again = pickle.loads(pickle.dumps(error))
    assert again.error is Errors.REQUEST_TIMED_OUT and str(again) == str(error)
