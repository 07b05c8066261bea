"""`python -m ishiki check`: reads the configuration as the bot would, and says what is wrong and who owns what.

Uses the bot's own loaders, and judges the start by the same function as the bot does. Plugins are read and not loaded,
so what only they provide counts as a warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio

from ishiki.cli.arguments import CheckArguments, Online
from ishiki.cli.environment import project_environment, project_folder
from ishiki.cli.online import prove_online
from ishiki.cli.plugin_files import plugin_faults
from ishiki.config import Redactor
from ishiki.contracts.services import ServiceRegistry
from ishiki.engines import BUILTIN_ENGINES
from ishiki.errors import ActivationError, ConfigError, IshikiError, StorageError
from ishiki.gateway import Catalogue, Gateway, read_catalogue
from ishiki.profile import Profile, load_profiles
from ishiki.runtime.active_profile import activate
from ishiki.runtime.preflight import judge_place, judge_settings

__all__ = ["run_check"]

_MODELS_FILE = "models.yaml"


def run_check(arguments: CheckArguments, *, folder: Path, environ: Mapping[str, str]) -> int:
    """Check the configuration and print what was found.

    Args:
        arguments: the flags.
        folder: the present folder, for `.env` and `--profiles`.
        environ: the process's variables.

    Returns:
        The exit status: 0 where all is well (warnings included), 1 where something is wrong.
    """
    found = _Findings(folder)
    log = logging.getLogger("ishiki")
    log.addHandler(found)
    try:
        home = project_folder(folder)
        environment = project_environment(folder, environ)
        settings = judge_settings(environment)
        for fault in judge_place(home, settings):
            _take_place_fault(fault, found)
        for plugin in plugin_faults(home / "plugins"):
            found.warn(plugin)
        directory = home / settings.profiles_dir if arguments.profiles is None else folder / arguments.profiles
        _check(directory, environment, arguments.online, found)
    except ConfigError as fault:
        found.fail(fault)
    finally:
        log.removeHandler(found)
    return found.report()


def _take_place_fault(fault: IshikiError, found: _Findings) -> None:
    """Take why no bot can start here; that one runs already is no fault of the configuration."""
    if isinstance(fault, StorageError):
        found.warn(f"{fault} (where that is this bot, all is well)")
    else:
        found.fail(fault)


def _check(directory: Path, environment: Mapping[str, str], online: Online | None, found: _Findings) -> None:
    catalogue = _read_models(directory / _MODELS_FILE, environment, found)
    loaded = load_profiles(directory, environment)
    for problem in loaded.problems:
        found.note(problem.severity, problem.error)
    found.redactor.add(secret for profile in loaded.profiles for secret in profile.secrets)
    services = ServiceRegistry()
    for engine in BUILTIN_ENGINES:
        services.provide(engine, module="ishiki.engines")
    gateway = None if catalogue is None else Gateway(catalogue)
    found.say(f"profiles in {directory}:")
    for profile in loaded.profiles:
        _check_profile(profile, catalogue, gateway, services, found)
    if not loaded.profiles:
        found.say("  none")
    found.say("channels, the most specific claim first:")
    for owner in loaded.router().who_owns() or ["nobody claims any"]:
        found.say(f"  {owner}")
    if online is not None and catalogue is not None and gateway is not None:
        prove_online(online, loaded.profiles, catalogue, gateway, found)


def _read_models(file: Path, environment: Mapping[str, str], found: _Findings) -> Catalogue | None:
    """Read models.yaml and print its providers; None where it is faulty."""
    try:
        catalogue = read_catalogue(file, environment)
    except ConfigError as fault:
        found.fail(fault)
        return None
    found.redactor.add(catalogue.secrets)
    found.say(f"providers in {file}:")
    unused = catalogue.unused
    for name, provider in catalogue.providers.items():
        if provider in unused:
            continue
        state = f"not configured: set {', '.join(provider.unset)} in .env" if provider.unset else "configured"
        found.say(f"  {name}: {state}")
    if unused:
        ready = ", ".join(f"{one.provider_id} ({', '.join(one.unset)})" for one in unused)
        found.say(f"  ready for their keys, and in no group: {ready}")
    return catalogue


def _check_profile(
    profile: Profile, catalogue: Catalogue | None, gateway: Gateway | None, services: ServiceRegistry, found: _Findings
) -> None:
    try:
        anyio.run(profile.persona)
        if gateway is not None:
            activate(profile, services, gateway)
    except ActivationError as waiting:
        found.warn(f"{waiting} (plugins are not loaded by this check; one of them may provide it)")
    except IshikiError as fault:
        found.fail(fault)
    model = profile.config.model
    found.say(f"  {profile.id} ({profile.file}): model {model}{_members(model, catalogue)}")


def _members(model: str, catalogue: Catalogue | None) -> str:
    """Return which models answer for a group."""
    if catalogue is None or ":" in model:
        return ""
    try:
        return f" = {', '.join(member.ref for member in catalogue.usable(model))}"
    except ConfigError:
        return ""


class _Findings(logging.Handler):
    """What was found; also takes what the loaders log, because they log what they leave out."""

    def __init__(self, folder: Path) -> None:
        """Find nothing yet; files in `folder`, the present one, are named as a person there would name them."""
        super().__init__(logging.WARNING)
        self._prefix = f"{folder}{os.sep}"
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.redactor = Redactor()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a warning of a loader."""
        self.warn(record.getMessage())

    def note(self, severity: str, fault: ConfigError) -> None:
        """Take a finding of a loader."""
        if severity == "error":
            self.fail(fault)
        else:
            self.warn(str(fault))

    def warn(self, text: str) -> None:
        """Take something that may be meant so."""
        self.warnings.append(text)

    def fail(self, fault: IshikiError) -> None:
        """Take something that is wrong, with everything else found in the same reading."""
        self.errors.extend(_each(fault))

    def complain(self, text: str) -> None:
        """Take something that is wrong."""
        self.errors.append(text)

    def say(self, line: str) -> None:
        """Print a line, without secrets."""
        print(self.redactor.redact(line.replace(self._prefix, "")))

    def report(self) -> int:
        """Print everything, and return the exit status."""
        counts: list[str] = []
        for kind, texts in (("warning", self.warnings), ("error", self.errors)):
            different = dict.fromkeys(texts)
            counts.insert(0, f"{len(different)} {kind}{'' if len(different) == 1 else 's'}")
            for text in different:
                self.say(f"{kind}: {text}")
        print(", ".join(counts))
        return 1 if self.errors else 0


def _each(fault: IshikiError) -> Iterator[str]:
    """Yield the text of each finding in `fault`."""
    if not isinstance(fault, ConfigError):
        yield str(fault)
        return
    yield str(fault.args[0])
    for other in fault.others:
        yield from _each(other)
