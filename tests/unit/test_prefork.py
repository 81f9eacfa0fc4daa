"""How a job gets into the pipe of a pool process."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from worker.prefork import _Pipe

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = memoryview(b"\x00\x02\x11\x70")
PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Of a pipe, the writing one not blocking."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_job_is_written_at_once(ends: tuple[int, int]) -> None:
    """The header alone wakes nobody."""
    reading, writing = ends
    write = _Pipe(writing)
    body = memoryview(b"job" * 300)
    assert write(HEADER, 0) == len(HEADER)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    assert write(body, 0) == len(body)
    assert os.read(reading, 2000) == bytes(HEADER) + bytes(body)


@pytest.mark.parametrize("room", [0, 1, 3, 4, 5])
def test_what_finds_no_room_follows(ends: tuple[int, int], room: int) -> None:
    """Whatever room there is at first, header and body come whole, in their order, and the next job's after them."""
    reading, writing = ends
    size = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    before = b"." * (size - room)
    assert os.write(writing, before) == len(before)
    # What is over whole pages goes into the rest of a page first: here exactly as much as there is room for.
    long = memoryview(bytes(range(256)) * (3 * size // 256))[: 2 * size + PAGE - len(HEADER) + room]
    write, read = _Pipe(writing), bytearray()
    for body in (long, long[:700]):
        assert write(HEADER, 0) == len(HEADER)
        done = 0
        while done < len(body):
            try:
                done += write(body, done)
            except BlockingIOError:
                read += os.read(reading, size)
    read += os.read(reading, size)
    assert bytes(read) == before + bytes(HEADER) + bytes(long) + bytes(HEADER) + bytes(long[:700])
