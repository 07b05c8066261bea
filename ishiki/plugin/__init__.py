"""The NoneBot plugin: `nonebot.load_plugin("ishiki.plugin")`. It registers its own OneBot v11 adapter.

Everything of NoneBot and OneBot ends in this package; what runs behind it is `ishiki.runtime`.
"""

from __future__ import annotations

import nonebot
from nonebot.plugin import PluginMetadata

from ishiki.gateway import Gateway
from ishiki.plugin.lifespan import Lifespan

__all__ = ["get_gateway", "get_lifespan"]

__plugin_meta__ = PluginMetadata(
    name="ishiki",
    description="A mind that lives in chats: reads everything, decides when to speak, speaks by tools.",
    usage="Write profiles/<id>/profile.yaml; see the README.",
    type="application",
    supported_adapters={"~onebot.v11"},
)


def _install() -> Lifespan | None:
    try:
        driver = nonebot.get_driver()
    except ValueError:
        # A part of this package is imported without a bot, by a tool or a test: nothing is hooked.
        return None
    return Lifespan.install(driver)


_lifespan = _install()


def get_lifespan() -> Lifespan:
    """Return what runs Ishiki in this process.

    Raises:
        RuntimeError: NoneBot was not initialised when this was imported.
    """
    if _lifespan is None:
        raise RuntimeError("call nonebot.init() before loading ishiki.plugin")
    return _lifespan


def get_gateway() -> Gateway:
    """Return the models of this process, for plugins that ask one outside a runtime.

    Raises:
        RuntimeError: the bot has not started yet; call it in a handler or in `on_startup`.
    """
    return get_lifespan().gateway
