"""The process settings of `.env`: what they are called, what they mean, their defaults.

Validates a mapping of names to values, however it was read; reading `.env` is NoneBot's. Names are case-insensitive and
an empty value counts as unset, as NoneBot has them.
"""

from __future__ import annotations

import json
import logging
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias

from pydantic import Field, SecretStr, field_validator

from ishiki.config.model import ConfigModel, IdText
from ishiki.config.problems import nearest
from ishiki.config.scalars import NumberRangeError, resolve_plain
from ishiki.config.validation import validate_config
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonValue

__all__ = ["MAX_FRAME_BYTES", "FsyncPolicy", "SettingRow", "Settings", "setting_rows"]

logger = logging.getLogger(__name__)

FsyncPolicy: TypeAlias = Literal["always", "interval", "never"]
"""When the log is forced to the disk: with each append, once a second, or when the system likes."""

MAX_FRAME_BYTES = 64 * 2**20
"""The largest WebSocket frame of a OneBot implementation that is taken, in bytes, in both directions.

Our choice: above what NapCat takes itself (50 MiB, its `maxPayload`); a picture in base64 is one frame, and so is a
history full of them.
"""

_PREFIX = "ISHIKI_"


class Settings(ConfigModel):
    """Everything that is set once per process. The names in `.env` are the fields' aliases.

    The first seven belong to NoneBot and its OneBot adapter, which read them themselves; they stand here because they
    are part of setting up the bot and because start-up checks them.
    """

    host: str = Field(
        default="127.0.0.1",
        validation_alias="HOST",
        description="Address to listen on. Anything but 127.0.0.1 needs ONEBOT_ACCESS_TOKEN.",
    )
    port: int = Field(default=8080, ge=1, le=65535, validation_alias="PORT", description="TCP port to listen on.")
    driver: str = Field(
        default="~fastapi+~httpx+~websockets",
        validation_alias="DRIVER",
        description="NoneBot's drivers: ~fastapi for reverse connections, ~httpx and ~websockets for outgoing ones.",
    )
    onebot_access_token: SecretStr | None = Field(
        default=None,
        validation_alias="ONEBOT_ACCESS_TOKEN",
        description="Secret that the protocol end must present; without one the bot listens on 127.0.0.1 only.",
    )
    onebot_ws_urls: tuple[str, ...] = Field(
        default=(),
        validation_alias="ONEBOT_WS_URLS",
        description="Protocol ends to connect to (forward WebSocket), as a JSON list of ws:// or wss:// addresses.",
    )
    superusers: frozenset[IdText] = Field(
        default=frozenset(),
        validation_alias="SUPERUSERS",
        description="User ids that NoneBot plugins treat as the bot's owners, as a JSON list.",
    )
    log_level: str | int = Field(
        default="INFO",
        validation_alias="LOG_LEVEL",
        description="Least level that is logged: TRACE, DEBUG, INFO, SUCCESS, WARNING, ERROR, CRITICAL, or a number.",
    )
    profiles_dir: Path = Field(
        default=Path("profiles"),
        validation_alias="ISHIKI_PROFILES_DIR",
        description="Folder of models.yaml and of one folder per profile; relative to the folder of bot.py.",
    )
    data_dir: Path = Field(
        default=Path("data"),
        validation_alias="ISHIKI_DATA_DIR",
        description="Folder of all logs and captured media; relative to the folder of bot.py.",
    )
    fsync: FsyncPolicy = Field(
        default="interval",
        validation_alias="ISHIKI_FSYNC",
        description="When logs are forced to the disk: always (each append), interval (once a second), never.",
    )
    timezone: str | None = Field(
        default=None,
        validation_alias="ISHIKI_TIMEZONE",
        description="Time zone by its IANA name, such as Asia/Shanghai; unset: the system's. Profiles may override it.",
    )
    dump_requests: bool = Field(
        default=False,
        validation_alias="ISHIKI_DUMP_REQUESTS",
        description="Whether each request to a model and its answer are written below ISHIKI_DATA_DIR, keys left out.",
    )
    debug_stream: bool = Field(
        default=False,
        validation_alias="ISHIKI_DEBUG_STREAM",
        description="Whether each part of a model's streamed answer is logged at DEBUG.",
    )
    max_model_calls: int = Field(
        default=16,
        ge=1,
        validation_alias="ISHIKI_MAX_MODEL_CALLS",
        description="Model calls in flight at once, over all channels; further ones wait, first come first served.",
    )
    max_resident_runtimes: int = Field(
        default=200,
        ge=1,
        validation_alias="ISHIKI_MAX_RESIDENT_RUNTIMES",
        description="Channels kept in memory; beyond it the idle ones that were used longest ago leave first.",
    )
    channel_queue: int = Field(
        default=1000,
        ge=1,
        validation_alias="ISHIKI_CHANNEL_QUEUE",
        description="Events that may wait per channel; beyond it events are shed, counted and logged.",
    )

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        if name is None:
            return None
        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as fault:
            close = nearest(name, zoneinfo.available_timezones())
            hint = f"; did you mean {close!r}?" if close else ""
            raise ValueError(f"no time zone of this name is known{hint}") from fault
        return name

    @field_validator("onebot_ws_urls")
    @classmethod
    def _websocket_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if not url.startswith(("ws://", "wss://")):
                raise ValueError(f"{url!r} is no WebSocket address; it starts with ws:// or wss://")
        return urls

    @field_validator("log_level")
    @classmethod
    def _upper(cls, level: str | int) -> str | int:
        return level.upper() if isinstance(level, str) else level

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Read the settings from a mapping of names to values.

        Args:
            values: text as in an environment, or values that NoneBot has decoded (numbers, booleans, lists, sets).
                Names of others are ignored, but for those that start with `ISHIKI_`.

        Raises:
            ConfigError: a value is of the wrong kind or out of bounds, a name is given twice, or an `ISHIKI_` name is
                nearly one of ours. An `ISHIKI_` name that resembles none is a warning: it may be another program's.
        """
        given: dict[str, JsonValue] = {}
        aliases = {str(field.validation_alias): name for name, field in cls.model_fields.items()}
        for name, value in values.items():
            upper = name.upper()
            if upper not in aliases:
                _check_unknown(upper, [alias for alias in aliases if alias.startswith(_PREFIX)])
                continue
            read = _plain(value, is_text=aliases[upper] in _TEXT_FIELDS)
            if read is None:
                continue
            if given.setdefault(upper, read) != read:
                raise ConfigError(
                    "is given twice in different letter case; remove one", key=upper, code="setting_twice"
                )
        return validate_config(cls, given)


_TEXT_FIELDS = frozenset({"host", "driver", "onebot_access_token", "profiles_dir", "data_dir", "fsync", "timezone"})
"""Fields whose text is taken as it stands: a token of digits is still text."""


def _plain(value: object, *, is_text: bool) -> JsonValue:
    """Return a setting as JSON data; None for one that is not set."""
    items = _items(value)
    if items is not None:
        plain = [item if isinstance(item, int) else str(item) for item in items]
        # NoneBot hands some settings over as sets; the order of a set is not for error messages.
        return sorted(plain, key=str) if isinstance(value, set | frozenset) else plain
    match value:
        case None | "":
            return None
        case str():
            return value if is_text else _decoded(value)
        case int() | float():
            return json.dumps(value) if is_text else value
        case _:
            # Addresses and URLs that another model has parsed.
            return str(value)


def _items(value: object) -> list[object] | None:
    return [*value] if isinstance(value, list | tuple | set | frozenset) else None


def _decoded(text: str) -> JsonValue:
    if text.lstrip().startswith(("[", "{")):
        try:
            decoded: JsonValue = json.loads(text)
        except ValueError:
            return text
        return decoded
    try:
        return resolve_plain(text.strip())
    except NumberRangeError:
        return text


def _check_unknown(name: str, known: list[str]) -> None:
    if not name.startswith(_PREFIX):
        return
    close = nearest(name.removeprefix(_PREFIX), [alias.removeprefix(_PREFIX) for alias in known])
    if close:
        raise ConfigError(f"unknown setting; did you mean {_PREFIX}{close}?", key=name, code="unknown_setting")
    logger.warning("the setting %s is not one of Ishiki's; it is ignored (known: %s)", name, ", ".join(known))


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as its documentation states it."""

    name: str
    """The name in `.env`."""
    default: str
    """The default as `.env` would write it; "" where unset is the default."""
    description: str
    """What it is, with its unit."""


def setting_rows() -> tuple[SettingRow, ...]:
    """Return every setting, in the order of the documentation."""
    return tuple(
        SettingRow(str(field.validation_alias), _written(field.default), field.description or "")
        for field in Settings.model_fields.values()
    )


def _written(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return json.dumps(default)
    items = _items(default)
    return str(default) if items is None else json.dumps(items)
