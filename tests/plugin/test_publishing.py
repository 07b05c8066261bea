"""Published files: how long they live and how many there are."""

from __future__ import annotations

from nonebot.drivers import Request

from ishiki.contracts.resources import FilePayload
from ishiki.plugin.publishing import Publisher


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def payload(size: int) -> FilePayload:
    """Return so many bytes."""
    return FilePayload("artifact://1", bytes(size), "application/octet-stream", size)


async def test_an_address_expires_after_five_minutes() -> None:
    """Our choice: long enough for an end to fetch, short enough to forget."""
    clock = Hand()
    publisher = Publisher("http://127.0.0.1:1/", clock)
    request = Request("GET", publisher.publish(payload(3)))
    clock.seconds = 299
    assert (await publisher.serve(request)).status_code == 200
    clock.seconds = 300
    assert (await publisher.serve(request)).status_code == 404


async def test_the_oldest_leave_when_there_is_too_much() -> None:
    """Our choice: 64 MiB in all."""
    publisher = Publisher("http://127.0.0.1:1", Hand())
    urls = [publisher.publish(payload(30 * 1024 * 1024)) for _ in range(3)]
    states = [(await publisher.serve(Request("GET", url))).status_code for url in urls]
    assert states == [404, 200, 200]
