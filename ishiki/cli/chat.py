"""`python -m ishiki chat`: a person at the other end of the bot, typing or by a script.

Assembles address, OneBot end, conversation and input, and keeps the connection.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio

from ishiki.cli.address import DIAL_ERRORS, Address, ChatError, dial_problem, find_address
from ishiki.cli.arguments import ChatArguments
from ishiki.cli.conversation import Conversation
from ishiki.cli.environment import project_environment
from ishiki.cli.lines import NumberedAccount
from ishiki.cli.screen import Screen
from ishiki.cli.script import Script, load_script, run_script
from ishiki.cli.terminal import InputLines
from ishiki.cli.typed import TypedError, read_typed
from ishiki.errors import IshikiError
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.task_scope import TaskScope

__all__ = ["RETRY_DELAYS_S", "run_chat"]

RETRY_DELAYS_S = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each attempt to connect again; the last one repeats. A restarted bot listens within a few seconds."""

_STEADY_S = 10.0
"""Seconds after which a connection counts as good. A shorter one does not shorten the next delay: two chats of one
account would push each other out for ever."""

_HEARTBEAT_S = 30.0
"""How often real ends send a heartbeat."""

_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


def run_chat(arguments: ChatArguments, *, folder: Path, environ: Mapping[str, str]) -> int:
    """Talk to the bot until the person, the script or the end of input ends it.

    Args:
        arguments: the flags.
        folder: where `.env` is looked for.
        environ: the process's variables.

    Returns:
        The exit status: 0 ended well, 1 failed as standard error says, 130 interrupted.
    """
    try:
        script = None if arguments.script is None else load_script(arguments.script)
        address = find_address(arguments, project_environment(folder, environ))
        return anyio.run(_chat, arguments, address, script)
    except IshikiError as fault:
        print(f"chat: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()  # the shell's prompt goes below the ^C
        return _INTERRUPTED


async def _chat(arguments: ChatArguments, address: Address, script: Script | None) -> int:
    account = NumberedAccount(arguments.account)
    peer = OneBotPeer(address.url, self_id=arguments.account, access_token=address.token, heartbeat_s=_HEARTBEAT_S)
    peer.account = account
    with InputLines() as lines:
        is_typed = script is None and lines.is_terminal
        is_styled = is_typed and not os.environ.get("NO_COLOR")
        screen = Screen(is_styled=is_styled, typed=lambda: lines.typed)
        conversation = Conversation(
            peer, account, screen, user_id=arguments.user, name=arguments.name, echoes=not is_typed
        )
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(peer)
            except DIAL_ERRORS as fault:
                raise ChatError(dial_problem(fault, address), code="no_connection") from None
            screen.note(f"connected to {address.url} as the bot's account {arguments.account}")
            tasks = await stack.enter_async_context(TaskScope())
            tasks.start_soon(conversation.watch)
            if script is not None:
                await _follow_script(script, conversation, peer, screen, arguments.timeout_s)
            else:
                tasks.start_soon(partial(keep_connected, peer, address, screen))
                await _follow_input(lines, conversation, screen, arguments.timeout_s)
    return 0


async def _follow_script(
    script: Script, conversation: Conversation, peer: OneBotPeer, screen: Screen, timeout_s: float
) -> None:
    """Run the script; a lost connection fails it at once, because what was said meanwhile would be missing."""

    async def end_when_lost(scope: anyio.CancelScope) -> None:
        await peer.wait_disconnected(within=math.inf)
        scope.cancel()

    async with TaskScope() as tasks:
        with anyio.CancelScope() as scope:
            tasks.start_soon(end_when_lost, scope)
            await run_script(script, conversation, screen, timeout_s=timeout_s)
        if scope.cancelled_caught:
            raise script.error("the connection to the bot was lost; look at its log")


async def _follow_input(lines: InputLines, conversation: Conversation, screen: Screen, timeout_s: float) -> None:
    """Do what is typed, until `/quit` or the end of input."""
    if lines.is_terminal:
        screen.note(f"you are in {conversation.place}; /help lists what you can do, /quit ends")
    while (line := await lines.read(conversation.prompt)) is not None:
        if not line.strip():
            continue
        try:
            goes_on = await conversation.perform(read_typed(line.strip()))
        except TypedError as fault:
            screen.note(str(fault))
            continue
        if not goes_on:
            return
    if lines.is_terminal:
        print()  # the shell's prompt goes below the ^D
    elif not await conversation.wait_answer(timeout_s):
        screen.note(f"the bot said nothing within {timeout_s:g} s")


async def keep_connected(
    peer: OneBotPeer, address: Address, screen: Screen, *, delays_s: Sequence[float] = RETRY_DELAYS_S
) -> None:
    """Connect again whenever the connection is lost, and say so; runs until cancelled.

    Args:
        peer: the end, connected once.
        address: where it connects to, for messages.
        screen: where to say so.
        delays_s: seconds before each attempt; the last one repeats. Never empty.
    """
    connections = attempt = 0
    while True:
        connections += 1
        since = anyio.current_time()
        await peer.wait_disconnected(connections, within=math.inf)
        screen.note(
            "the connection to the bot is lost; connecting again until it is back "
            "(does a second chat run? Give it its own --account)"
        )
        if anyio.current_time() - since > _STEADY_S:
            attempt = 0
        is_told = False
        while True:
            await anyio.sleep(delays_s[min(attempt, len(delays_s) - 1)])
            attempt += 1
            try:
                await peer.reconnect()
            except DIAL_ERRORS as fault:
                if not is_told:
                    screen.note(dial_problem(fault, address))
                is_told = True
            else:
                screen.note("connected again")
                break
