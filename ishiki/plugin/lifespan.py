"""From NoneBot's start to its stop: makes the shared parts, runs the supervisor, and stops it before the server goes.

Stop begins at the signal. The server closes its sockets as soon as it has one, so our handler comes first: turns that
run may still finish and send; only then is the signal handed on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeAlias

import anyio
import anyio.to_thread
import nonebot
from anyio.abc import TaskStatus
from nonebot.drivers import ASGIMixin, Driver

from ishiki.config import Redactor, Settings, read_environment
from ishiki.contracts.platform import Platform
from ishiki.contracts.services import services
from ishiki.core.clock import Clock, SystemRandom
from ishiki.engines import BUILTIN_ENGINES
from ishiki.errors import ConfigError, StorageError
from ishiki.gateway import Gateway
from ishiki.plugin.accounts import self_id_of
from ishiki.plugin.adapter import Adapter
from ishiki.plugin.logs import bridge_logs
from ishiki.plugin.onebot_platform import OneBotPlatform, PlatformLimits
from ishiki.plugin.publishing import Publisher
from ishiki.plugin.welcome import Listening, welcome
from ishiki.profile import LimitsConfig
from ishiki.runtime.kit import RuntimeKit
from ishiki.runtime.supervisor import Supervisor
from ishiki.storage import FolderLock, LogFiles

__all__ = ["Lifespan"]

logger = logging.getLogger(__name__)

_SignalHandler: TypeAlias = "Callable[[int, FrameType | None], Any]"

_LOCALHOST = "127.0.0.1"


class Lifespan:
    """What runs Ishiki in one process."""

    def __init__(self, driver: Driver, settings: Settings, environment: dict[str, str], folder: Path) -> None:
        """Describe it; `install` makes and hooks one."""
        self._driver = driver
        self._settings = settings
        self._environment = environment
        self._folder = folder
        self._data_dir = folder / settings.data_dir
        self._redactor = Redactor()
        self._supervisor: Supervisor | None = None
        self._gateway: Gateway | None = None
        self._publisher: Publisher | None = None
        self._signalled = anyio.Event()
        self._signal: int | None = None
        self._previous: dict[int, _SignalHandler] = {}

    @classmethod
    def install(cls, driver: Driver) -> Self:
        """Read the settings, and hook start and stop into `driver`. Relative folders are the working folder's.

        Raises:
            ConfigError: a setting is wrong.
        """
        folder = Path.cwd()
        environment = read_environment(folder)
        settings = Settings.from_host(environment, driver.config.model_dump())
        lifespan = cls(driver, settings, environment, folder)
        bridge_logs(settings.log_level, lifespan._redactor)
        lifespan._keep_local()
        lifespan._hand_to_adapter()
        for engine in BUILTIN_ENGINES:
            services.provide(engine, module="ishiki.engines")
        if isinstance(driver, ASGIMixin):
            lifespan._publisher = Publisher(f"http://{lifespan._listening().address}", Adapter.clock)
            lifespan._publisher.mount(driver)
        _register_adapter(driver)
        driver.on_startup(lifespan._start)
        driver.on_shutdown(lifespan._stop)
        return lifespan

    @property
    def gateway(self) -> Gateway:
        """The models of this process.

        Raises:
            RuntimeError: the bot has not started yet.
        """
        if self._gateway is None:
            raise RuntimeError("the bot has not started yet; ask for the gateway in a handler or in on_startup")
        return self._gateway

    @property
    def supervisor(self) -> Supervisor:
        """What runs the minds.

        Raises:
            RuntimeError: the bot has not started yet.
        """
        if self._supervisor is None:
            raise RuntimeError("the bot has not started yet; ask for the supervisor in a handler or in on_startup")
        return self._supervisor

    async def _start(self) -> None:
        # Nothing is entered here: a group or scope that a hook opens is closed by another task.
        await self._driver.task_group.start(self._run)

    async def _stop(self) -> None:
        Adapter.intake.close()
        if self._supervisor is not None:
            await self._supervisor.stop()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        """Run until stopped. Lets no exception out: in the host's own group it would leave a dead process listening."""
        is_started = False
        try:
            adapter = _our_adapter()
            with FolderLock(self._data_dir):
                supervisor = await self._make_supervisor(adapter)
                async with anyio.create_task_group() as group:
                    await group.start(supervisor.run)
                    Adapter.intake.open(supervisor.offer)
                    self._chain_signals()
                    group.start_soon(self._stop_on_signal, supervisor)
                    logger.info("%s", welcome(self._listening(), self._settings, supervisor, self.gateway))
                    is_started = True
                    task_status.started()
        except Exception as error:
            is_expected = isinstance(error, ConfigError | StorageError)
            text = self._redactor.redact(str(error)) if is_expected else "Ishiki has failed and ends the process"
            logger.critical("%s", text, exc_info=None if is_expected else error)
            if not is_started:
                task_status.started()
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            Adapter.intake.close()

    async def _make_supervisor(self, adapter: Adapter) -> Supervisor:
        settings = self._settings
        if settings.onebot_access_token is not None:
            self._redactor.add([settings.onebot_access_token.get_secret_value()])
        profiles_dir = self._folder / settings.profiles_dir
        self._gateway = await anyio.to_thread.run_sync(self._load_gateway, profiles_dir)
        kit = RuntimeKit(
            settings=settings,
            environment=self._environment,
            profiles_dir=profiles_dir,
            data_dir=self._data_dir,
            gateway=self._gateway,
            services=services,
            log_files=LogFiles(fsync=settings.fsync, clock=Adapter.clock),
            clock=Adapter.clock,
            random=SystemRandom(),
            platform_for=self._platform_for(Adapter.clock),
            is_own_account=lambda sid: Adapter.accounts.is_own(self_id_of(sid)),
            clock_offset_ms=lambda sid: Adapter.intake.offsets.offset_ms(self_id_of(sid)),
            abandon_calls=adapter.abandon_calls,
            redactor=self._redactor,
        )
        self._supervisor = Supervisor(kit)
        return self._supervisor

    def _load_gateway(self, profiles_dir: Path) -> Gateway:
        """Read models.yaml; a broken one leaves the demo model until it has been mended."""
        file = next((path for name in ("models.yaml", "models.yml") if (path := profiles_dir / name).is_file()), None)
        return Gateway.load(
            file or profiles_dir / "models.yaml",
            env=self._environment,
            clock=Adapter.clock,
            max_calls=self._settings.max_model_calls,
            redactor=self._redactor,
            dump_folder=self._data_dir / "requests" if self._settings.dump_requests else None,
            debug_stream=self._settings.debug_stream,
        )

    def _platform_for(self, clock: Clock) -> Callable[[str, LimitsConfig], Platform]:
        def make(sid: str, limits: LimitsConfig) -> Platform:
            return OneBotPlatform(
                sid,
                accounts=Adapter.accounts,
                sent=Adapter.sent,
                clock=clock,
                publisher=self._publisher,
                limits=PlatformLimits(send_s=limits.send_s, fetch_s=limits.fetch_s),
            )

        return make

    def _listening(self) -> Listening:
        config = self._driver.config
        return Listening(str(config.host), config.port, is_server=isinstance(self._driver, ASGIMixin))

    def _keep_local(self) -> None:
        """Without an access token anybody who reaches the port could speak as anybody: listen on this machine only."""
        host = str(self._driver.config.host)
        if self._settings.onebot_access_token is None and not _is_loopback(host):
            logger.warning("HOST is %s and ONEBOT_ACCESS_TOKEN is not set: listening on %s only", host, _LOCALHOST)
            self._driver.config.host = ip_address(_LOCALHOST)

    def _hand_to_adapter(self) -> None:
        """Let the adapter see what counts here: NoneBot does not hand it names that stand in the environment alone."""
        for name, value in self._settings.host_options().items():
            if name.startswith("onebot_") and value:
                setattr(self._driver.config, name, value)

    # -- signals -------------------------------------------------------------------------------------------------

    def _chain_signals(self) -> None:
        """Come before the server's own handlers, which are set by now."""
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            if self._signal is not None:
                self._previous[number](number, frame)  # the second one means it
                return
            self._signal = number
            loop.call_soon_threadsafe(self._signalled.set)

        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.getsignal(number)
            if callable(previous):
                self._previous[number] = previous
                signal.signal(number, handle)

    async def _stop_on_signal(self, supervisor: Supervisor) -> None:
        await self._signalled.wait()
        logger.info("stopping: turns that run may finish")
        Adapter.intake.close()
        await supervisor.stop()
        assert self._signal is not None
        self._previous[self._signal](self._signal, None)


def _register_adapter(driver: Driver) -> None:
    """Register our OneBot V11 adapter, unless somebody has registered one; which one it is shows at the start."""
    if Adapter.get_name() not in nonebot.get_adapters():
        driver.register_adapter(Adapter)  # pyright: ignore[reportUnknownMemberType] its **kwargs are untyped


def _our_adapter() -> Adapter:
    registered = nonebot.get_adapters().get(Adapter.get_name())
    if isinstance(registered, Adapter):
        return registered
    kind = type(registered)
    raise ConfigError(
        f"the OneBot V11 adapter that bot.py registers is {kind.__module__}.{kind.__qualname__}, which loses frames "
        "that Ishiki needs; remove that line from bot.py: loading ishiki.plugin registers its own"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
