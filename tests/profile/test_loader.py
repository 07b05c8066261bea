"""A folder of profiles: what is read, what is skipped, and what an edit changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ishiki.errors import ConfigError
from ishiki.profile.loader import LoadedProfiles, diff, load_profiles
from ishiki.profile.reading import read_profile

from .folders import GOOD, claiming, write_profile

SHIPPED = Path(__file__).resolve().parents[2] / "profiles" / "default"


def load(directory: Path, previous: LoadedProfiles | None = None) -> LoadedProfiles:
    """Load `directory` with an empty environment."""
    return load_profiles(directory, {}, previous=previous)


def ids(loaded: LoadedProfiles) -> list[str]:
    """Return the ids of what runs."""
    return [profile.id for profile in loaded.profiles]


def findings(loaded: LoadedProfiles) -> list[tuple[str, str, str]]:
    """Return what was found, without its wording."""
    return [(problem.profile_id, problem.severity, problem.error.code) for problem in loaded.problems]


def test_a_missing_folder_is_a_warning_and_no_profile(tmp_path: Path) -> None:
    """Specification, activation: a missing `profiles/` is a warning only."""
    loaded = load(tmp_path / "profiles")
    assert ids(loaded) == []
    assert findings(loaded) == [("", "warning", "profiles_missing")]
    assert loaded.router().route("onebot:1", "group:1") is None


def test_an_empty_folder_is_a_warning(tmp_path: Path) -> None:
    """Our choice: a bot that can answer nobody says so."""
    assert findings(load(tmp_path)) == [("", "warning", "profiles_empty")]


def test_a_broken_profile_hurts_only_itself(tmp_path: Path) -> None:
    """Specification, activation: a parse or validation error skips that profile only."""
    write_profile(tmp_path, "a", "model: [\n")
    write_profile(tmp_path, "b", claiming("group:1"))
    write_profile(tmp_path, "c", claiming("group:2", more="plain_text: yes\n"))
    loaded = load(tmp_path)
    assert ids(loaded) == ["b"]
    assert findings(loaded) == [("a", "error", "yaml_syntax"), ("c", "error", "not_a_boolean")]
    assert loaded.problems[1].error.file == tmp_path / "c" / "profile.yaml"


def test_a_folder_without_a_profile_file_is_skipped_with_a_warning(tmp_path: Path) -> None:
    """Specification, activation."""
    write_profile(tmp_path, "a")
    write_profile(tmp_path, "b", file="profil.yaml")
    (tmp_path / "notes").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "models.yaml").touch()
    loaded = load(tmp_path)
    assert ids(loaded) == ["a"]
    assert findings(loaded) == [("b", "warning", "profile_file_missing"), ("notes", "warning", "profile_file_missing")]
    assert "'profil.yaml'" in str(loaded.problems[0])


def test_a_profile_file_outside_its_folder_is_named(tmp_path: Path) -> None:
    """Our choice: `profiles/neko.yaml` looks right and would be silent."""
    write_profile(tmp_path, "", file="neko.yaml")
    (problem,) = load(tmp_path).problems
    assert problem.error.file == tmp_path / "neko.yaml"
    assert str(tmp_path / "neko" / "profile.yaml") in str(problem)


def test_yml_is_read_and_both_spellings_at_once_are_an_error(tmp_path: Path) -> None:
    """Design, configuration: `profile.yaml` or `profile.yml`; both is an error by our choice."""
    write_profile(tmp_path, "a", claiming("group:1"), file="profile.yml")
    write_profile(tmp_path, "b", claiming("group:2"), file="profile.yml")
    write_profile(tmp_path, "b", claiming("group:2"))
    loaded = load(tmp_path)
    assert ids(loaded) == ["a"]
    assert findings(loaded) == [("b", "error", "profile_file_twice")]


def test_two_equal_claims_are_an_error_of_the_later_profile_naming_both_lines(tmp_path: Path) -> None:
    """Design, addresses: equal specificity is an error of the later profile, naming both files and lines."""
    write_profile(tmp_path, "a", claiming("private:*", "group:*"))
    write_profile(tmp_path, "b", claiming("group:1"))
    write_profile(tmp_path, "c", f"# a comment\n{claiming('group:2', 'gr*')}")
    loaded = load(tmp_path)
    assert ids(loaded) == ["a", "b"]
    (problem,) = loaded.problems
    error = problem.error
    assert (error.code, error.file, error.line, error.column) == (
        "claim_conflict",
        tmp_path / "c" / "profile.yaml",
        4,
        27,
    )
    assert error.key == 'channels["onebot:*"][1]'
    assert f"{tmp_path / 'a' / 'profile.yaml'}:3" in error.problem


def test_a_claim_is_compared_with_all_earlier_profiles(tmp_path: Path) -> None:
    """Our choice: the original compares with the first one of the account only."""
    for name, pattern in [("a", "group:1"), ("b", "group:2"), ("c", "group:2"), ("d", "group:2")]:
        write_profile(tmp_path, name, claiming(pattern))
    loaded = load(tmp_path)
    assert ids(loaded) == ["a", "b"]
    assert findings(loaded) == [("c", "error", "claim_conflict"), ("d", "error", "claim_conflict")]


@pytest.mark.parametrize(
    "patterns", [{"onebot:*": ["*"]}, {"onebot:*": ["group:*"]}, {"onebot:1": ["*"]}, {"onebot:1": ["group:1"]}]
)
def test_a_profile_beside_the_shipped_one_gets_its_channels(patterns: dict[str, list[str]], tmp_path: Path) -> None:
    """Design: a user's own profile beside the shipped one gets its channels; by `fallback: true`, our choice."""
    (tmp_path / "default").symlink_to(SHIPPED)
    assert load(tmp_path).router().route("onebot:1", "group:1") == "default"
    ((account, claimed),) = patterns.items()
    # Sorted before and behind the shipped one.
    for name in ("aki", "neko"):
        path = write_profile(tmp_path, name, claiming(*claimed, account=account))
        loaded = load(tmp_path)
        assert loaded.problems == ()
        assert loaded.router().route("onebot:1", "group:1") == name
        path.unlink()
        path.parent.rmdir()


def test_extensions_keep_their_order_and_disabled_ones_are_left_out(tmp_path: Path) -> None:
    """Specification, profile keys: `enable: false` is dropped; the order is that of tools and instructions."""
    text = f"{GOOD}extends:\n  zeta: {{config: {{n: 1}}}}\n  off: {{enable: false}}\n  alpha:\n"
    profile = read_profile(write_profile(tmp_path, "neko", text).parent, {})
    assert profile.extensions == ("zeta", "alpha")


def test_a_good_edit_is_a_change_and_an_edited_comment_is_none(tmp_path: Path) -> None:
    """Design, configuration: a good edit replaces the profile; what is the same need not be handed over."""
    write_profile(tmp_path, "a", claiming("group:1"))
    write_profile(tmp_path, "b", claiming("group:2"))
    write_profile(tmp_path, "c", claiming("group:3"))
    old = load(tmp_path)
    write_profile(tmp_path, "a", f"# hello\n{claiming('group:1')}")
    write_profile(tmp_path, "b", claiming("group:2", more="plain_text: true\n"))
    (tmp_path / "c" / "profile.yaml").unlink()
    write_profile(tmp_path, "d", claiming("group:4"))
    changes = diff(old, load(tmp_path, old))
    assert (changes.added, changes.changed, changes.removed) == (("d",), ("b",), ("c",))
    assert not diff(old, old)


def test_the_order_of_extensions_counts_as_a_change(tmp_path: Path) -> None:
    """Specification, profile keys: the order of `extends` is that of tools and instructions."""
    write_profile(tmp_path, "a", f"{GOOD}extends: {{x: {{}}, y: {{}}}}\n")
    old = load(tmp_path)
    write_profile(tmp_path, "a", f"{GOOD}extends: {{y: {{}}, x: {{}}}}\n")
    assert diff(old, load(tmp_path, old)).changed == ("a",)


def test_a_bad_edit_is_refused_and_the_old_profile_stays(tmp_path: Path) -> None:
    """Design, configuration: a bad edit is refused with its error and the old one stays."""
    write_profile(tmp_path, "a")
    old = load(tmp_path)
    write_profile(tmp_path, "a", f"{GOOD}plain_text: yes\n")
    new = load(tmp_path, old)
    assert new.profiles == old.profiles
    assert findings(new) == [("a", "error", "not_a_boolean")]
    assert new.problems[0].keeps_previous
    assert "goes on as it was" in str(new.problems[0])
    assert not diff(old, new)


def test_an_edit_cannot_take_the_channels_of_a_running_profile(tmp_path: Path) -> None:
    """Our choice: while the bot runs, the profile that was not edited keeps its channels, whatever its name."""
    write_profile(tmp_path, "a", claiming("group:1"))
    write_profile(tmp_path, "b", claiming("group:2"))
    old = load(tmp_path)
    write_profile(tmp_path, "a", claiming("group:2"))
    new = load(tmp_path, old)
    assert findings(new) == [("a", "error", "claim_conflict")]
    assert new.router().route("onebot:1", "group:1") == "a"
    assert new.router().route("onebot:1", "group:2") == "b"


def test_channels_can_change_hands_in_one_edit(tmp_path: Path) -> None:
    """Our choice: two files saved together are judged together."""
    write_profile(tmp_path, "a", claiming("group:1"))
    write_profile(tmp_path, "b", claiming("group:2"))
    old = load(tmp_path)
    write_profile(tmp_path, "a", claiming("group:2"))
    write_profile(tmp_path, "b", claiming("group:1"))
    new = load(tmp_path, old)
    assert new.problems == ()
    assert new.router().route("onebot:1", "group:1") == "b"


def test_a_refused_edit_keeps_channels_that_another_edit_wanted(tmp_path: Path) -> None:
    """Our choice: what stays as it was holds what it held, so the edits that relied on it are refused too."""
    write_profile(tmp_path, "a", claiming("group:1"))
    write_profile(tmp_path, "b", claiming("group:2"))
    write_profile(tmp_path, "c", claiming("group:3"))
    old = load(tmp_path)
    write_profile(tmp_path, "a", claiming("group:2"))
    write_profile(tmp_path, "b", claiming("group:3"))
    new = load(tmp_path, old)
    assert [(name, code) for name, _, code in findings(new)] == [("a", "claim_conflict"), ("b", "claim_conflict")]
    assert new.profiles == old.profiles


def test_a_removed_profile_is_gone_even_if_others_are_broken(tmp_path: Path) -> None:
    """Our choice: only an edit can be refused; a removal is a decision."""
    write_profile(tmp_path, "a", claiming("group:1"))
    write_profile(tmp_path, "b", claiming("group:2"))
    old = load(tmp_path)
    (tmp_path / "b" / "profile.yaml").unlink()
    write_profile(tmp_path, "a", "model: [\n")
    new = load(tmp_path, old)
    assert ids(new) == ["a"]
    assert diff(old, new).removed == ("b",)


async def test_the_persona_is_read_anew_each_time(tmp_path: Path) -> None:
    """Design, configuration: persona and memory are read at each turn."""
    profile = read_profile(write_profile(tmp_path, "neko").parent, {})
    assert await profile.persona() == ""
    profile.persona_path.write_bytes("\ufeffA cat.\r\nSleepy.\r\n\n".encode())
    assert await profile.persona() == "A cat.\nSleepy."
    profile.persona_path.write_text("A dog.", encoding="utf-8")
    assert await profile.persona() == "A dog."


@pytest.mark.parametrize(
    ("raw", "code", "place"),
    [
        ("猫\n一只".encode() + "中文".encode("gbk"), "persona_encoding", (2, 3)),
        (b"\xef\xbb\xbfok \xff", "persona_encoding", (1, 4)),
        ("猫".encode("utf-16"), "persona_encoding", (1, 1)),
        (b"x" * (256 * 1024 + 1), "persona_too_large", (None, None)),
    ],
)
async def test_a_persona_that_is_no_text_is_an_error_with_its_place(
    raw: bytes, code: str, place: tuple[int | None, int | None], tmp_path: Path
) -> None:
    """Our choice: a persona saved in another encoding must not reach the model as rubbish."""
    profile = read_profile(write_profile(tmp_path, "neko").parent, {})
    profile.persona_path.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        await profile.persona()
    error = caught.value
    assert (error.code, error.file, (error.line, error.column)) == (code, profile.persona_path, place)


def test_a_profile_file_that_cannot_be_read_is_an_error_of_that_profile(tmp_path: Path) -> None:
    """Our choice: a folder in the file's place is the one unreadable thing that every user sees alike."""
    (tmp_path / "a" / "profile.yaml").mkdir(parents=True)
    write_profile(tmp_path, "b")
    loaded = load(tmp_path)
    assert ids(loaded) == ["b"]
    assert findings(loaded) == [("a", "error", "config_unreadable")]


async def test_a_persona_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Our choice: a persona that is there and unreadable is not the same as none."""
    profile = read_profile(write_profile(tmp_path, "neko").parent, {})
    profile.persona_path.mkdir()
    with pytest.raises(ConfigError) as caught:
        await profile.persona()
    assert (caught.value.code, caught.value.file) == ("config_unreadable", profile.persona_path)


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    """Our choice: a wrong ISHIKI_PROFILES_DIR does not stop the bot."""
    path = tmp_path / "profiles"
    path.touch()
    assert findings(load(path)) == [("", "error", "config_unreadable")]


def test_secrets_of_a_profile_are_known_to_be_hidden(tmp_path: Path) -> None:
    """Design, safety: the values of all expanded secrets are redacted."""
    text = f'{GOOD}extends: {{map: {{config: {{api_key: "${{MAP_KEY}}"}}}}}}\n'
    profile = read_profile(write_profile(tmp_path, "neko", text).parent, {**os.environ, "MAP_KEY": "s3cr3t-map-key"})
    assert profile.secrets == {"s3cr3t-map-key"}
    assert "s3cr3t" not in profile.fingerprint
