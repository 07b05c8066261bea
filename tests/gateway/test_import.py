"""What importing the gateway costs, and what it must not pull in."""

from __future__ import annotations

import os
import subprocess
import sys

from ishiki.gateway import Gateway


def test_importing_and_loading_the_gateway_pulls_in_neither_litellm_nor_an_sdk() -> None:
    """Design, dependencies: LiteLLM is imported only if an active profile needs it."""
    program = (
        "import sys\n"
        "from ishiki.gateway import Gateway\n"
        "Gateway.load(None, env={}).model('demo:offline')\n"
        "print(sorted({'litellm', 'openai', 'httpx', 'aiohttp', 'nonebot'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.strip() == "[]"


async def test_warming_up_sets_litellm_up_for_offline_use() -> None:
    """Design, dependencies: no price list from the network, no tokenizer download."""
    gateway = Gateway.load(None, env={})
    await gateway.warm_up()
    await gateway.warm_up()
    assert (os.environ["LITELLM_LOCAL_MODEL_COST_MAP"], os.environ["HF_HUB_OFFLINE"]) == ("True", "1")
    await gateway.aclose()
