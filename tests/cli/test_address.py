from __future__ import annotations

import anyio
import pytest
from anyio.abc import SocketStream

from ishiki.cli.address import DIAL_ERRORS, Address, dial_problem, find_address
from ishiki.cli.arguments import ChatArguments
from ishiki.errors import ConfigError
from ishiki.testing.onebot_peer import OneBotPeer

from .bot_end import PATH, bot_end


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, f"ws://127.0.0.1:8080{PATH}"),
        ({"HOST": "", "PORT": "9000"}, f"ws://127.0.0.1:9000{PATH}"),
        ({"HOST": "0.0.0.0"}, f"ws://127.0.0.1:8080{PATH}"),
        ({"HOST": "::"}, f"ws://[::1]:8080{PATH}"),
        ({"host": "fe80::1"}, f"ws://[fe80::1]:8080{PATH}"),
        ({"HOST": "bot.lan"}, f"ws://bot.lan:8080{PATH}"),
    ],
)
def test_the_address_is_where_a_bot_with_these_settings_is_reached(environment: dict[str, str], url: str) -> None:
    """Our choice: who listens on every address is reached on loopback."""
    assert find_address(ChatArguments(), environment).url == url


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("127.0.0.1:9000", f"ws://127.0.0.1:9000{PATH}"),
        ("ws://bot.lan/", f"ws://bot.lan{PATH}"),
        ("https://bot.lan", f"wss://bot.lan{PATH}"),
        ("wss://bot.lan/other/ws?a=1", "wss://bot.lan/other/ws?a=1"),
    ],
)
def test_what_a_url_leaves_out_is_added(given: str, url: str) -> None:
    """Our choice: the start-up line of a bot can be pasted in any form."""
    assert find_address(ChatArguments(url=given), {"PORT": "1"}).url == url


@pytest.mark.parametrize("given", ["ftp://bot", "ws://", "ws://bot:port", "ws://bot:0"])
def test_a_url_that_is_none_is_an_error_that_shows_one(given: str) -> None:
    """Our choice."""
    with pytest.raises(ConfigError) as raised:
        find_address(ChatArguments(url=given), {})
    assert raised.value.code == "bad_url"


def test_the_token_of_a_flag_wins_and_neither_is_shown() -> None:
    """Design, safety defaults: secrets appear in no log."""
    environment = {"ONEBOT_ACCESS_TOKEN": "from-env-secret"}
    from_env = find_address(ChatArguments(), environment)
    from_flag = find_address(ChatArguments(token="from-flag-secret"), environment)
    assert (from_env.token, from_flag.token) == ("from-env-secret", "from-flag-secret")
    assert "secret" not in repr(from_env) + repr(from_flag)


async def problem_of(address: Address) -> str:
    """Return what a person is told about an address that cannot be connected to."""
    with pytest.raises(DIAL_ERRORS) as raised:
        async with OneBotPeer(address.url, access_token=address.token):
            pytest.fail("the connection was taken")
    error = raised.value
    assert isinstance(error, DIAL_ERRORS)
    return dial_problem(error, address)


async def test_where_nobody_listens_the_hint_is_how_to_start_the_bot() -> None:
    """Our choice; over a real socket."""
    async with bot_end() as bot:
        url = bot.url
    problem = await problem_of(Address(url))
    assert f"nobody listens at 127.0.0.1:{bot.port}" in problem
    assert "./run" in problem


async def test_a_missing_and_a_wrong_token_are_told_apart() -> None:
    """Our choice; NoneBot's OneBot adapter answers both with 403."""
    async with bot_end(token="right") as bot:
        missing = await problem_of(Address(bot.url))
        wrong = await problem_of(Address(bot.url, "wrong", "--token"))
    assert "wants an access token" in missing
    assert "ONEBOT_ACCESS_TOKEN" in missing
    assert "from --token is not the bot's" in wrong
    assert "wrong" not in wrong.replace("wrong access", "")


async def test_another_server_on_the_port_is_recognised() -> None:
    """Our choice: the port may belong to some other web server, or to no web server at all."""
    async with bot_end() as bot:
        other_path = await problem_of(Address(bot.url.replace(PATH, "/elsewhere")))
    assert PATH in other_path
    assert "404" in other_path

    async def hang_up(stream: SocketStream) -> None:
        async with stream:
            await stream.send(b"220 mail.example.org ESMTP\r\n")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hang_up)
        port: int = listener.extra(anyio.abc.SocketAttribute.local_port)
        assert "does not speak WebSocket" in await problem_of(Address(f"ws://127.0.0.1:{port}{PATH}"))
        tasks.cancel_scope.cancel()
