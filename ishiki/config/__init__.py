"""Configuration as a leaf: strict YAML with positions, variables, models with good errors, process settings, redaction.

The way of a file is `load_yaml` -> `expand` -> `validate_config`. Knows nothing of profiles, models or engines; each of
them brings its own `ConfigModel`.
"""

from ishiki.config.document import ConfigDocument, KeyPath, Position, render_key
from ishiki.config.environment import ENV_ENCODING, environment_files, read_environment
from ishiki.config.expand import Expanded, MissingVariable, expand
from ishiki.config.model import ConfigModel, IdText
from ishiki.config.problems import nearest
from ishiki.config.redact import Redactor
from ishiki.config.settings import FsyncPolicy, SettingRow, Settings, setting_rows
from ishiki.config.validation import validate_config
from ishiki.config.yaml_loader import load_yaml, parse_yaml
from ishiki.config.zones import check_zone

__all__ = [
    "ENV_ENCODING",
    "ConfigDocument",
    "ConfigModel",
    "Expanded",
    "FsyncPolicy",
    "IdText",
    "KeyPath",
    "MissingVariable",
    "Position",
    "Redactor",
    "SettingRow",
    "Settings",
    "check_zone",
    "environment_files",
    "expand",
    "load_yaml",
    "nearest",
    "parse_yaml",
    "read_environment",
    "render_key",
    "setting_rows",
    "validate_config",
]
