"""The process settings of `.env`: what they are called, what they mean, their defaults.

Validates a mapping of names to values, however it was read; reading `.env` is `environment`'s. Names are
case-insensitive and an empty value counts as unset, as NoneBot has them. A value that is refused is answered with the
line that says what was most likely meant; that line is always one that is accepted.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, cast

from pydantic import AnyUrl, Field, SecretStr, TypeAdapter, UrlConstraints, ValidationError, field_validator

from ishiki.config.drivers import check_driver, has_server
from ishiki.config.model import ConfigModel, IdText
from ishiki.config.problems import nearest
from ishiki.config.scalars import NumberRangeError, resolve_plain
from ishiki.config.setting_advice import LOG_LEVELS, likely_values
from ishiki.config.setting_text import env_line
from ishiki.config.validation import validate_config
from ishiki.config.zones import check_zone, meant_zone, reversed_offset
from ishiki.errors import ConfigError
from ishiki.jsonvalue import JsonValue

__all__ = ["MAX_FRAME_BYTES", "FsyncPolicy", "SettingRow", "Settings", "setting_name", "setting_rows"]

logger = logging.getLogger(__name__)

FsyncPolicy: TypeAlias = Literal["always", "interval", "never"]
"""When the log is forced to the disk: with each append, once a second, or when the system likes."""

MAX_FRAME_BYTES = 64 * 2**20
"""The largest WebSocket frame of a OneBot implementation that is taken, in bytes, in both directions.

Our choice: above what NapCat takes itself (50 MiB, its `maxPayload`); a picture in base64 is one frame, and so is a
history full of them.
"""

_PREFIX = "ISHIKI_"

_V11 = {
    "ONEBOT_V11_ACCESS_TOKEN": "ONEBOT_ACCESS_TOKEN",
    "ONEBOT_V11_WS_URLS": "ONEBOT_WS_URLS",
    "ONEBOT_V11_SECRET": "ONEBOT_SECRET",
    "ONEBOT_V11_API_ROOTS": "ONEBOT_API_ROOTS",
}
"""Further names of the OneBot v11 adapter; where both are set, its own one counts. Source: its configuration."""

_WEBSOCKET_URL: TypeAdapter[AnyUrl] = TypeAdapter(Annotated[AnyUrl, UrlConstraints(allowed_schemes=["ws", "wss"])])
_HTTP_URL: TypeAdapter[AnyUrl] = TypeAdapter(Annotated[AnyUrl, UrlConstraints(allowed_schemes=["http", "https"])])

_LOCAL = "127.0.0.1"


class Settings(ConfigModel):
    """Everything that is set once per process. The names in `.env` are the fields' aliases.

    The first nine belong to NoneBot and its OneBot adapter, which read them themselves; they stand here because they
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
    onebot_secret: SecretStr | None = Field(
        default=None,
        validation_alias="ONEBOT_SECRET",
        description="Secret with which a protocol end signs the events that it posts over HTTP.",
    )
    onebot_api_roots: dict[str, str] = Field(
        default={},
        validation_alias="ONEBOT_API_ROOTS",
        description="Addresses of protocol ends that are called over HTTP, as a JSON mapping from account to address.",
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

    @field_validator("host")
    @classmethod
    def _address(cls, host: str) -> str:
        text = host.strip().removeprefix("[").removesuffix("]")
        if text.lower() == "localhost":
            return _LOCAL  # NoneBot takes an address only
        if _is_address(text) or re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", text):
            return text
        raise ValueError("it is no address")

    @field_validator("driver")
    @classmethod
    def _known_driver(cls, driver: str) -> str:
        return check_driver(driver)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        return name if name is None else check_zone(name)

    @field_validator("onebot_ws_urls")
    @classmethod
    def _websocket_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if not _is_url(_WEBSOCKET_URL, url):
                raise ValueError(f"{url!r} is no WebSocket address; it starts with ws:// or wss://")
        # The host keeps them as a set, whose order is another one in each process; it means nothing.
        return tuple(sorted(set(urls)))

    @field_validator("onebot_api_roots")
    @classmethod
    def _http_urls(cls, roots: dict[str, str]) -> dict[str, str]:
        for url in roots.values():
            if not _is_url(_HTTP_URL, url):
                raise ValueError(f"{url!r} is no address; it starts with http:// or https://")
        return roots

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str | int) -> str | int:
        if isinstance(level, int):
            if level < 0:
                raise ValueError("a level is no less than 0")
            return level
        if level.strip().upper() not in LOG_LEVELS:
            raise ValueError(f"the levels are {', '.join(LOG_LEVELS)}, and numbers")
        return level.strip().upper()

    @property
    def listening_host(self) -> str:
        """The address that is really listened on: without an access token, this machine's own only."""
        is_loopback = self.has_address and ipaddress.ip_address(self.host).is_loopback
        return self.host if is_loopback or self.onebot_access_token is not None else _LOCAL

    @property
    def has_address(self) -> bool:
        """Whether HOST is an IP address; a name can be called, and NoneBot cannot listen on one."""
        return _is_address(self.host)

    @property
    def has_server(self) -> bool:
        """Whether anything is listened on: DRIVER may name none that does."""
        return has_server(self.driver)

    def host_options(self) -> dict[str, object]:
        """Return what NoneBot and its OneBot adapter are initialised with, by their own names of these settings.

        What is given so wins over what they read themselves, in forms that they would not take.
        """
        token, secret = self.onebot_access_token, self.onebot_secret
        return {
            "driver": self.driver,
            "host": self.host,
            "port": self.port,
            "log_level": self.log_level,
            "superusers": set(self.superusers),
            "onebot_v11_access_token": None if token is None else token.get_secret_value(),
            "onebot_v11_secret": None if secret is None else secret.get_secret_value(),
            "onebot_v11_ws_urls": set(self.onebot_ws_urls),
            "onebot_v11_api_roots": dict(self.onebot_api_roots),
        }

    @classmethod
    def from_host(cls, environment: Mapping[str, str], config: Mapping[str, object]) -> Self:
        """Read the settings of a process whose host is initialised already.

        Args:
            environment: all variables as text.
            config: the host's configuration, where what it was initialised with stands beside what it has read.

        Raises:
            ConfigError: as of `from_mapping`.
        """
        own = {
            name.upper(): value
            for name, value in config.items()
            if setting_name(name) is not None and value not in (None, "") and _items(value) != []
        }
        for name, text in environment.items():
            # Of ours the text counts: the host has decoded a folder `007` into something else.
            if name.upper().startswith(_PREFIX) and own.get(name.upper()) == _host_reads(text):
                own.pop(name.upper(), None)
        return cls.from_mapping(
            {**{name: text for name, text in environment.items() if name.upper() not in own}, **own}
        )

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Read the settings from a mapping of names to values.

        Args:
            values: text as in an environment, or values that NoneBot has decoded (numbers, booleans, lists, sets).
                Names of others are ignored, but for those that start with `ISHIKI_`.

        Raises:
            ConfigError: a value is of the wrong kind or out of bounds, a name is given twice, or an `ISHIKI_` name is
                nearly one of ours; every finding is in the error. An `ISHIKI_` name that resembles none is a warning:
                it may be another program's.
        """
        given: dict[str, _Given] = {}
        errors: list[ConfigError] = []
        for name, value in values.items():
            setting = setting_name(name)
            if setting is None:
                errors.extend(_check_unknown(name.upper(), [one for one in _aliases() if one.startswith(_PREFIX)]))
                continue
            one = _Given(name.upper(), value, _plain(value, setting))
            known = given.get(setting)
            if one.read is None:
                continue
            if (
                known is not None
                and known.name == one.name
                and cls._meaning(setting, known) != cls._meaning(setting, one)
            ):
                problem = "is given twice in different letter case; remove one"
                errors.append(ConfigError(problem, key=one.name, code="setting_twice"))
            if known is None or one.name != setting:
                given[setting] = one
        try:
            settings = validate_config(cls, {setting: one.read for setting, one in given.items()})
        except ConfigError as fault:
            raise _joined([*errors, *cls._explained(fault, given)]) from None
        if errors:
            raise _joined(errors)
        settings._warn()
        return settings

    @classmethod
    def _meaning(cls, setting: str, one: _Given) -> object:
        """Return what a value comes to, so that two ways to write it are the same."""
        try:
            value: object = getattr(validate_config(cls, {setting: one.read}), _aliases()[setting])
        except ConfigError:
            return one.read
        return frozenset(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value

    @classmethod
    def _accepts(cls, setting: str, text: str) -> bool:
        try:
            validate_config(cls, {setting: _plain(text, setting)})
        except ConfigError:
            return False
        return True

    @classmethod
    def _explained(cls, fault: ConfigError, given: Mapping[str, _Given]) -> Iterator[ConfigError]:
        """Yield the findings of a validation, one for each setting, with the line to write."""
        seen: set[str] = set()
        for one in (fault, *fault.others):
            setting = one.key.partition("[")[0].partition(".")[0]
            if setting in seen or setting not in given:
                continue
            seen.add(setting)
            name, raw = given[setting].name, given[setting].raw
            text = raw if isinstance(raw, str) else json.dumps(given[setting].read)
            field = _aliases()[setting]
            default = cls.model_fields[field].default
            likely = [*likely_values(field, default, text), "" if _is_empty(default) else _written(default)]
            meant = next((one for one in likely if one and cls._accepts(setting, one)), None)
            if field == "onebot_api_roots" and not isinstance(given[setting].read, Mapping):
                problem = f'must be a JSON mapping; write {name}={{"10001":"http://127.0.0.1:3000"}}, with yours'
                yield ConfigError(problem, key=name, code=one.code)
                continue
            if meant is None:
                yield ConfigError(one.problem, key=name, code=one.code)
                continue
            lead = one.problem.partition("; ")[0]
            yield ConfigError(f"{lead}; write {env_line(name, meant)}", key=name, code=one.code)

    def _warn(self) -> None:
        """Say what is accepted and most likely meant otherwise."""
        really = reversed_offset(self.timezone or "")
        if really is not None:
            opposite = str(self.timezone).removeprefix("Etc/")
            logger.warning(
                "ISHIKI_TIMEZONE: %s is %s, its sign is the reverse; for UTC%s write ISHIKI_TIMEZONE=%s",
                self.timezone, really, opposite.removeprefix("GMT"), meant_zone(opposite),
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Given:
    """One setting as it was given."""

    name: str
    """In upper case, as written: the adapter's settings have two names."""
    raw: object
    read: JsonValue
    """None: not set."""


_TEXT_FIELDS = frozenset(
    {"host", "driver", "onebot_access_token", "onebot_secret", "profiles_dir", "data_dir", "fsync", "timezone"}
)
"""Fields whose text is taken as it stands: a token of digits is still text."""


def _aliases() -> dict[str, str]:
    """Return the fields by the names of their settings."""
    return {str(field.validation_alias): name for name, field in Settings.model_fields.items()}


def setting_name(name: str) -> str | None:
    """Return the setting that `name` sets, in whatever letter case, as the documentation calls it; None for none."""
    upper = name.upper()
    setting = _V11.get(upper, upper)
    return setting if setting in _aliases() else None


def _joined(errors: list[ConfigError]) -> ConfigError:
    return errors[0].joined(errors[1:])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_url(adapter: TypeAdapter[AnyUrl], url: str) -> bool:
    try:
        adapter.validate_python(url)
    except ValidationError:
        return False
    return url == url.strip() and "://" in url


def _is_empty(default: object) -> bool:
    return default is None or (not isinstance(default, bool | int) and not default)


def _plain(value: object, setting: str) -> JsonValue:
    """Return a setting as JSON data; None for one that is not set."""
    field = _aliases()[setting]
    is_text = field in _TEXT_FIELDS
    items = _items(value)
    if items is not None:
        plain = [item if isinstance(item, int) else str(item) for item in items]
        # NoneBot hands some settings over as sets; the order of a set is not for error messages.
        return sorted(plain, key=str) if isinstance(value, set | frozenset) else plain
    match value:
        case None:
            return None
        case str():
            if not value.strip():
                return None
            return value if is_text else _decoded(value, is_json=_is_json(field))
        case int() | float():
            return json.dumps(value) if is_text else value
        case Mapping():
            return {str(key): str(one) for key, one in cast("Mapping[object, object]", value).items()}
        case _:
            # Addresses and URLs that another model has parsed.
            return str(value)


def _is_json(field: str) -> bool:
    return field in ("superusers", "onebot_ws_urls", "onebot_api_roots")


def _items(value: object) -> list[object] | None:
    return [*value] if isinstance(value, list | tuple | set | frozenset) else None


def _decoded(text: str, *, is_json: bool) -> JsonValue:
    if is_json:
        return _host_reads(text)
    try:
        return resolve_plain(text.strip())
    except NumberRangeError:
        return text


def _host_reads(text: str) -> JsonValue:
    """Return what NoneBot makes of a variable: what the text says as JSON, else the text."""
    try:
        decoded: JsonValue = json.loads(text.strip())
    except (ValueError, RecursionError):
        return text
    return decoded


def _check_unknown(name: str, known: list[str]) -> Iterator[ConfigError]:
    if not name.startswith(_PREFIX):
        return
    close = nearest(name.removeprefix(_PREFIX), [alias.removeprefix(_PREFIX) for alias in known])
    if close:
        yield ConfigError(f"unknown setting; did you mean {_PREFIX}{close}?", key=name, code="unknown_setting")
        return
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
    if isinstance(default, Mapping):
        return json.dumps(dict(cast("Mapping[str, object]", default)))
    items = _items(default)
    return str(default) if items is None else json.dumps(items)
