"""All profiles of a folder: each read by itself, then settled among each other by their claims. Blocks on the disk.

A broken profile hurts only itself. Read again while the bot runs, a profile that has become broken stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ishiki.errors import ConfigError
from ishiki.profile.claims import claim_path, find_conflict
from ishiki.profile.profile import Profile
from ishiki.profile.reading import PROFILE_FILES, NoProfileFileError, read_profile
from ishiki.profile.router import Router

__all__ = ["LoadedProfiles", "ProfileProblem", "ProfilesDiff", "diff", "load_profiles"]


@dataclass(frozen=True, slots=True)
class ProfileProblem:
    """One thing that is wrong in the profiles folder."""

    profile_id: str
    """The profile, or "" for the folder as a whole."""
    severity: Literal["error", "warning"]
    """error: a profile is not used as written. warning: something is skipped that may be meant so."""
    error: ConfigError
    """What is wrong and where; never raised."""
    keeps_previous: bool = False
    """Whether the profile goes on as it was before the edit."""

    def __str__(self) -> str:
        """Return the text for a log line."""
        if not self.keeps_previous:
            return str(self.error)
        return f"{self.error}\nthe profile {self.profile_id!r} goes on as it was before"


@dataclass(frozen=True, slots=True)
class LoadedProfiles:
    """The profiles that run together, sorted by id; no two of them claim a channel equally."""

    profiles: tuple[Profile, ...] = ()
    problems: tuple[ProfileProblem, ...] = ()

    def get(self, profile_id: str) -> Profile | None:
        """Return the profile of that id."""
        return next((profile for profile in self.profiles if profile.id == profile_id), None)

    def router(self) -> Router:
        """Return who owns which channel among these profiles."""
        return Router((profile.id, profile.claims) for profile in self.profiles)


@dataclass(frozen=True, slots=True)
class ProfilesDiff:
    """What changed from one reading to the next, by profile id, each sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Those whose settings differ; an edit of comments alone is none."""
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.added or self.changed or self.removed)


def diff(old: LoadedProfiles, new: LoadedProfiles) -> ProfilesDiff:
    """Return what has to be started, handed over and stopped to get from `old` to `new`."""
    before = {profile.id: profile.fingerprint for profile in old.profiles}
    after = {profile.id: profile.fingerprint for profile in new.profiles}
    return ProfilesDiff(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def load_profiles(
    directory: Path, environment: Mapping[str, str], *, previous: LoadedProfiles | None = None
) -> LoadedProfiles:
    """Read every profile in `directory`.

    Folders are taken in the order of their names; of two profiles that claim a channel equally the later one is left
    out, with an error that names both places. Never raises for what stands in the folder.

    Args:
        directory: the folder of profile folders. Absent: a warning, and no profiles.
        environment: for `${NAME}`.
        previous: what runs now. A profile that has become broken, or that takes a running one's channels, stays as it
            was there; one whose folder is gone is gone.
    """
    problems: list[ProfileProblem] = []
    read: dict[str, Profile] = {}
    running = {profile.id: profile for profile in previous.profiles} if previous else {}
    kept: dict[str, Profile] = {}
    for folder in _folders(directory, problems):
        try:
            read[folder.name] = read_profile(folder, environment)
        except NoProfileFileError as fault:
            problems.append(ProfileProblem(folder.name, "warning", fault))
        except ConfigError as fault:
            old = running.get(folder.name)
            if old is not None:
                kept[folder.name] = old
            problems.append(ProfileProblem(folder.name, "error", fault, keeps_previous=old is not None))
    profiles, conflicts = _settled(read, running, kept)
    problems.extend(conflicts)
    if directory.is_dir() and not read and not problems:
        example = directory / "<name>" / PROFILE_FILES[0]
        problems.append(_folder_warning(directory, f"holds no profile, so nobody answers; write {example}"))
    return LoadedProfiles(profiles, tuple(problems))


def _folders(directory: Path, problems: list[ProfileProblem]) -> Iterable[Path]:
    """Return the profile folders by name, and note what else looks like a profile."""
    try:
        entries = sorted(directory.iterdir(), key=lambda path: path.name)
    except FileNotFoundError:
        problem = "there is no such folder, so nobody answers; make it, or set ISHIKI_PROFILES_DIR"
        problems.append(_folder_warning(directory, problem, code="profiles_missing"))
        return ()
    except OSError as fault:
        reason = fault.strerror or type(fault).__name__
        error = ConfigError(f"cannot be read: {reason}", file=directory, code="config_unreadable")
        problems.append(ProfileProblem("", "error", error))
        return ()
    for path in entries:
        if path.suffix in (".yaml", ".yml") and path.stem != "models" and path.is_file():
            place = directory / path.stem / PROFILE_FILES[0]
            problems.append(_folder_warning(path, f"is not read here; a profile stands in its own folder: {place}"))
    return [path for path in entries if path.is_dir() and not path.name.startswith((".", "__"))]


def _folder_warning(path: Path, problem: str, *, code: str = "profiles_empty") -> ProfileProblem:
    return ProfileProblem("", "warning", ConfigError(problem, file=path, code=code))


def _settled(
    read: Mapping[str, Profile], running: Mapping[str, Profile], kept: Mapping[str, Profile]
) -> tuple[tuple[Profile, ...], list[ProfileProblem]]:
    """Choose the profiles that run together.

    What runs and is unchanged keeps its channels against what is new. Whenever an edit is refused its old form counts
    as unchanged, and all is settled anew: the old form may hold channels that another edit wanted.
    """
    staying = dict(kept)
    for name, profile in read.items():
        old = running.get(name)
        if old is not None and old.fingerprint == profile.fingerprint:
            staying[name] = profile
    refused: dict[str, ProfileProblem] = {}
    while True:
        accepted: list[Profile] = [staying[name] for name in sorted(staying)]
        new = [read[name] for name in sorted(read) if name not in staying and name not in refused]
        for profile in new:
            error = _conflict_error(profile, accepted)
            if error is None:
                accepted.append(profile)
                continue
            old = running.get(profile.id)
            refused[profile.id] = ProfileProblem(profile.id, "error", error, keeps_previous=old is not None)
            if old is not None:
                staying[profile.id] = old
                break
        else:
            return tuple(sorted(accepted, key=lambda one: one.id)), [refused[name] for name in sorted(refused)]


def _conflict_error(profile: Profile, earlier: Sequence[Profile]) -> ConfigError | None:
    for other in earlier:
        conflict = find_conflict(profile.claims, other.claims)
        if conflict is None:
            continue
        path = claim_path(profile.config.channels, conflict)
        theirs = other.error("", claim_path(other.config.channels, conflict))
        problem = (
            f"the profile {other.id!r} claims {str(conflict.pattern)!r} of {conflict.account!r} as well "
            f"({theirs.file}:{theirs.line}); give one of the two a more specific claim or an exclusion"
        )
        return profile.error(problem, path, code="claim_conflict")
    return None
