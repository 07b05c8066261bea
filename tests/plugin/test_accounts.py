"""Accounts: who is online, who is ours, and what is remembered of them."""

from __future__ import annotations

import pytest

from ishiki.contracts.events import ChannelRef
from ishiki.plugin.accounts import Accounts, self_id_of, sid_of


class Link:
    """Something to reach an account by."""

    async def call_api(self, api: str, **data: object) -> object:
        return {"api": api, **data}


def test_a_sid_holds_the_accounts_own_id() -> None:
    """Design, configuration: `onebot:10001`, compared as text."""
    assert (sid_of("1"), self_id_of("onebot:1")) == ("onebot:1", "1")


def test_the_end_of_a_replaced_link_does_not_take_the_account_offline() -> None:
    """Design, one message in: the newest connection wins, in whatever order the ends come."""
    accounts, old, new = Accounts(), Link(), Link()
    accounts.connected("1", old)
    accounts.connected("1", new)
    accounts.disconnected("1", old)
    assert accounts.link("1") is new
    accounts.disconnected("1", new)
    assert (accounts.link("1"), accounts.online, accounts.own) == (None, frozenset(), {"1"})


def test_ours_are_those_that_connected_or_were_named() -> None:
    """Design, intake: no line of another account of ours wakes."""
    accounts = Accounts()
    accounts.add_own("2")
    accounts.connected("1", Link())
    assert [accounts.is_own(user_id) for user_id in ("1", "2", "3")] == [True, True, False]


def test_a_watcher_that_raises_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Our choice: a watcher is another layer's code."""
    accounts = Accounts()
    seen: list[tuple[str, bool]] = []

    def bad(self_id: str, is_online: bool) -> None:
        raise ValueError(self_id, is_online)

    accounts.watch(bad)
    stop = accounts.watch(lambda self_id, is_online: seen.append((self_id, is_online)))
    link = Link()
    accounts.connected("1", link)
    stop()
    accounts.disconnected("1", link)
    assert seen == [("1", True)]
    assert "raised on 1" in caplog.text


def test_temporary_chats_are_remembered_up_to_a_bound_and_forgotten_for_friends() -> None:
    """Our choice: memory stays bounded whoever writes; nothing is kept for accounts that are not ours."""
    accounts = Accounts()
    accounts.connected("1", Link())
    chats = [ChannelRef("onebot:1", f"private:{number}") for number in range(1_002)]
    for chat in chats:
        accounts.note_temporary_chat(chat, "500")
    assert [accounts.temporary_chat(chat) for chat in (chats[0], chats[1], chats[2])] == ["", "", "500"]
    accounts.note_temporary_chat(chats[2], "")
    assert accounts.temporary_chat(chats[2]) == ""
    stranger = ChannelRef("onebot:9", "private:1")
    accounts.note_temporary_chat(stranger, "500")
    assert (accounts.temporary_chat(stranger), accounts.is_own("9")) == ("", False)
