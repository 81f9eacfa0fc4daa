from __future__ import annotations

import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import kombu.compression
import kombu.serialization
import pytest
from celery import Celery
from hypothesis import example, given
from hypothesis import strategies as st
from kombu.exceptions import DecodeError

from worker.queue import codec
from worker.queue.codec import JobResult, dumps, loads

if TYPE_CHECKING:
    from collections.abc import Iterator

texts = st.text(st.characters(exclude_categories=["Cs"]))
integers = st.integers(-(2**63), 2**64 - 1) | st.integers()
json_data = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@given(json_data)
def test_what_is_written_is_read_back(value: Any) -> None:
    """Any JSON, integers beyond 64 bits included, survives the way through a message."""
    assert loads(dumps(value)) == value


@given(json_data)
@example({"k_requested": -(10**40) - 1})
def test_a_result_is_put_into_its_message_as_it_is(value: Any) -> None:
    """A result has the same JSON inside Celery's record as alone, and whichever encoder reads it."""
    result = JobResult({"value": value}, "<summary>")
    assert loads(dumps({"status": "SUCCESS", "result": result})) == {"status": "SUCCESS", "result": {"value": value}}
    assert result.__json__() == {"value": value}


def test_a_result_is_shown_as_its_summary_only() -> None:
    """Logs and events show `repr`: no chunk's text is in it."""
    result = JobResult({"chunks": [{"text": "canary-4711"}]}, "<retrieve_top_k ok>")
    assert (repr(result), str(result), f"{result}") == ("<retrieve_top_k ok>",) * 3
    assert not hasattr(result, "__dict__")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, bytes.decode], ids=lambda kind: kind.__name__)
def test_every_form_of_a_body_is_read(kind: Any) -> None:
    """Transports hand bodies over as bytes, views or text."""
    assert loads(kind('[["é"], {}, {}]'.encode())) == [["é"], {}, {}]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_batched_events_are_read_as_they_are(count: int) -> None:
    """A busy worker sends its task events to Flower as one list: it is no task's body, and no mistake."""
    events = [{"type": "task-received", "uuid": str(number), "clock": number} for number in range(count)]
    assert loads(dumps(events)) == events


@pytest.mark.parametrize("tag", ["bytes", "datetime", "decimal", "uuid", "nonsense"])
def test_tagged_objects_stay_plain(tag: str) -> None:
    """Kombu's own decoder would build objects from `__type__`; here they are fields like any other."""
    tagged = {"__type__": tag, "__value__": "eA=="}
    assert loads(json.dumps([[tagged], {}, {}])) == [[tagged], {}, {}]


BROKEN = {
    "cut": b'[[{"k": 12',
    "invalid UTF-8": b'[["\xff"], {}, {}]',
    "too deep": b"[" * 100_000 + b"]" * 100_000,
    "too many digits": b"[[" + b"9" * 5000 + b"], {}, {}]",
    "white space first": b" \n[oops",
    "trailing": b"[[1], {}, {}] x",
    "empty": b"",
    "a word": b"canary",
    "a cut object": b'{"canary": ',
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("kind", [bytes, memoryview, lambda raw: raw.decode(errors="replace") + "\0"], ids=range(3))
def test_what_can_not_be_read_is_a_value_error(body: bytes, kind: Any) -> None:
    """Refused without a word of it."""
    with pytest.raises(ValueError, match=r"^the message is not JSON$") as caught:
        loads(kind(body))
    assert caught.value.__suppress_context__


def test_types_of_celery_s_own_messages_can_be_written() -> None:
    """Control messages hold what only kombu's encoder knows; they go out as kombu writes them."""
    identity = uuid.UUID(int=1)
    written = json.loads(dumps({"id": identity, 7: 10**40, "rate": Decimal("0.5")}))
    assert written["7"] == 10**40
    assert written["rate"] == {"__type__": "decimal", "__value__": "0.5"}


@pytest.fixture
def installed() -> Iterator[None]:
    """Our JSON in kombu's registry, for one test."""
    codec.install()
    yield
    kombu.serialization.register_json()


@pytest.mark.usefixtures("installed")
def test_kombu_uses_it_once_installed() -> None:
    """Messages go through it in both directions, by kombu's name and content type."""
    content_type, encoding, body = kombu.serialization.dumps({"a": JobResult({"b": 1}, "")}, serializer="json")
    assert (content_type, encoding, body) == ("application/json", "utf-8", b'{"a":{"b":1}}')
    tagged = '{"__type__": "bytes", "__value__": "eA=="}'
    assert kombu.serialization.loads(tagged, content_type, encoding) == json.loads(tagged)
    with pytest.raises(DecodeError, match=r"^the message is not JSON$"):
        kombu.serialization.loads(b"oops", content_type, encoding)


@pytest.mark.usefixtures("installed")
def test_other_serializers_stay_refused() -> None:
    """Installing it opens no door: with JSON accepted, a pickle is not read."""
    app = Celery(set_as_current=False)
    app.conf.accept_content = ["json"]
    with pytest.raises(kombu.exceptions.ContentDisallowed):
        kombu.serialization.loads(b"\x80\x04N.", "application/x-python-serialize", "binary", accept=["json"])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("content_type", kombu.compression.encoders())
def test_nothing_is_unpacked(content_type: str) -> None:
    """By none of the ways that kombu knows: it would unpack a message before anybody can look at it."""
    with pytest.raises(ValueError, match="compressed messages are refused"):
        kombu.compression.decompress(b"", content_type)
