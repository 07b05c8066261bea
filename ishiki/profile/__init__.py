"""Profiles: one folder, one mind. Reads them, says who owns which channel, and tells when a file was edited.

`load_profiles` -> `LoadedProfiles.router()` for intake, `validate_blocks` at activation, `watch_profiles` and `diff`
for hot reload. Knows contracts and configuration; creates no engine and runs nothing.
"""

from ishiki.contracts.patterns import ChannelPattern, PatternError, parse_pattern
from ishiki.profile.blocks import BlockConfig, MissingService, ValidatedBlocks, required_services, validate_blocks
from ishiki.profile.claims import AccountClaim, Claims, Specificity, find_conflict, parse_claims
from ishiki.profile.loader import LoadedProfiles, ProfileProblem, ProfilesDiff, diff, load_profiles
from ishiki.profile.profile import ENGINE_FAMILIES, Profile
from ishiki.profile.reading import NoProfileFileError, read_profile
from ishiki.profile.reference import KeyRow, key_rows
from ishiki.profile.router import Router
from ishiki.profile.schema import (
    CodemodeConfig,
    ContextChoice,
    ExtensionEntry,
    FailoverConfig,
    GuardsConfig,
    LimitsConfig,
    ProfileConfig,
    ResourcesConfig,
    ToolcallChoice,
    ToolsearchConfig,
    TypingSection,
    WakeupChoice,
)
from ishiki.profile.watch import ProfileChanges, Stamp, changes_between, take_stamp, watch_profiles

__all__ = [
    "ENGINE_FAMILIES",
    "AccountClaim",
    "BlockConfig",
    "ChannelPattern",
    "Claims",
    "CodemodeConfig",
    "ContextChoice",
    "ExtensionEntry",
    "FailoverConfig",
    "GuardsConfig",
    "KeyRow",
    "LimitsConfig",
    "LoadedProfiles",
    "MissingService",
    "NoProfileFileError",
    "PatternError",
    "Profile",
    "ProfileChanges",
    "ProfileConfig",
    "ProfileProblem",
    "ProfilesDiff",
    "ResourcesConfig",
    "Router",
    "Specificity",
    "Stamp",
    "ToolcallChoice",
    "ToolsearchConfig",
    "TypingSection",
    "ValidatedBlocks",
    "WakeupChoice",
    "changes_between",
    "diff",
    "find_conflict",
    "key_rows",
    "load_profiles",
    "parse_claims",
    "parse_pattern",
    "read_profile",
    "required_services",
    "take_stamp",
    "validate_blocks",
    "watch_profiles",
]
