"""Edits on disk while the bot runs, over real files and the system's own notifications."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import anyio
import pytest

from ishiki.profile.watch import ProfileChanges, changes_between, take_stamp, watch_profiles

from .folders import claiming, write_profile


async def next_change(changes: AsyncGenerator[ProfileChanges, None]) -> ProfileChanges:
    """Return what is reported next."""
    with anyio.fail_after(5):
        return await anext(changes)


def test_only_profile_files_and_models_count(tmp_path: Path) -> None:
    """Design, configuration: persona and memory are read at each turn, so they need no reload."""
    write_profile(tmp_path, "a")
    before = take_stamp(tmp_path)
    for name in ("a/persona.md", "a/.profile.yaml.swp", "a/profile.yaml~", "notes.txt"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    assert not changes_between(before, take_stamp(tmp_path))
    (tmp_path / "models.yaml").touch()
    write_profile(tmp_path, "b", file="profile.yml")
    os.utime(tmp_path / "a" / "profile.yaml", ns=(1, 1))
    assert changes_between(before, take_stamp(tmp_path)) == ProfileChanges(frozenset({"a", "b"}), models=True)


def test_a_removed_file_is_a_change(tmp_path: Path) -> None:
    """Our choice: removing a profile is an edit."""
    path = write_profile(tmp_path, "a")
    before = take_stamp(tmp_path)
    path.unlink()
    assert changes_between(before, take_stamp(tmp_path)) == ProfileChanges(frozenset({"a"}))


async def test_an_edit_between_loading_and_watching_is_reported(tmp_path: Path) -> None:
    """Our choice: the watch starts from what was known when the profiles were loaded."""
    write_profile(tmp_path, "a")
    since = take_stamp(tmp_path)
    write_profile(tmp_path, "a", claiming("group:1", "private:1"))
    async with contextlib.aclosing(watch_profiles(tmp_path, since, look_s=0.3)) as changes:
        assert await next_change(changes) == ProfileChanges(frozenset({"a"}))


async def test_edits_are_reported_as_they_come(tmp_path: Path) -> None:
    """Design, configuration: edits are picked up while the bot runs."""
    write_profile(tmp_path, "a")
    async with contextlib.aclosing(watch_profiles(tmp_path, {}, look_s=0.3)) as changes:
        assert await next_change(changes) == ProfileChanges(frozenset({"a"}))
        write_profile(tmp_path, "b", claiming("group:1"))
        assert await next_change(changes) == ProfileChanges(frozenset({"b"}))
        (tmp_path / "models.yaml").write_text("providers: {}\n", encoding="utf-8")
        assert await next_change(changes) == ProfileChanges(models=True)


async def test_the_systems_notification_is_enough(tmp_path: Path) -> None:
    """Our choice: with hours between two looks an edit is still seen at once."""
    path = write_profile(tmp_path, "a")
    reported: list[ProfileChanges] = []
    seen = anyio.Event()

    async def watch() -> None:
        async with contextlib.aclosing(watch_profiles(tmp_path, take_stamp(tmp_path), look_s=3_600)) as changes:
            reported.append(await anext(changes))
            seen.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            # When the system begins to notify cannot be told from outside, so the edit goes on until it is seen.
            for edit in itertools.count():
                path.write_text(claiming(f"group:{edit}"), encoding="utf-8")
                with anyio.move_on_after(0.7):
                    await seen.wait()
                    break
    assert reported == [ProfileChanges(frozenset({"a"}))]


async def test_a_folder_that_the_system_will_not_watch_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: past the system's limit of watches, edits come a little later instead of never."""

    def refuse(*_: object, **__: object) -> Iterator[None]:
        yield from ()
        raise OSError(errno.ENOSPC, "no space for watches")

    monkeypatch.setattr("ishiki.profile.watch.watch", refuse)
    async with contextlib.aclosing(watch_profiles(tmp_path, take_stamp(tmp_path), look_s=0.05)) as changes:
        write_profile(tmp_path, "a")
        assert await next_change(changes) == ProfileChanges(frozenset({"a"}))
        write_profile(tmp_path, "b")
        assert await next_change(changes) == ProfileChanges(frozenset({"b"}))
    assert "cannot be watched" in caplog.text


async def test_a_folder_that_appears_later_is_watched(tmp_path: Path) -> None:
    """Specification, activation: a missing `profiles/` is a warning only; here it may come later, and go again."""
    directory = tmp_path / "not" / "yet"
    async with contextlib.aclosing(watch_profiles(directory, take_stamp(directory), look_s=0.3)) as changes:
        path = write_profile(directory, "a")
        assert await next_change(changes) == ProfileChanges(frozenset({"a"}))
        path.unlink()
        path.parent.rmdir()
        directory.rmdir()
        assert await next_change(changes) == ProfileChanges(frozenset({"a"}))
        write_profile(directory, "b")
        assert await next_change(changes) == ProfileChanges(frozenset({"b"}))


async def test_watching_ends_at_once_when_it_is_cancelled(tmp_path: Path) -> None:
    """Design, life and death: a stop waits for nothing that is only waiting."""
    waiting = anyio.Event()

    async def watch() -> None:
        async with contextlib.aclosing(watch_profiles(tmp_path, {})) as changes:
            waiting.set()
            async for _ in changes:
                raise AssertionError

    with anyio.fail_after(1.5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await waiting.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
