"""A process that makes bare LiteLLM calls, to know what of a turn is LiteLLM's: `python -m bench.litellm_call FILE`.

FILE holds {"arguments": …, "calls": n}. Prints one JSON list: for each call, the Unix seconds and the CPU seconds of
this process at which it was made, and those at which its last chunk was read. The stream is read as `ishiki.gateway`
reads it, past LiteLLM's own wrapper.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Protocol, cast

import anyio
import orjson


class _Answer(Protocol):
    completion_stream: AsyncIterator[object]

    async def aclose(self) -> None: ...


class _LiteLLM(Protocol):
    disable_token_counter: bool

    async def acompletion(self, **arguments: object) -> _Answer: ...


async def call(arguments: Mapping[str, object], count: int) -> list[tuple[float, float, float, float]]:
    """Make `count` calls one after the other.

    Returns:
        For each, Unix and CPU seconds at its beginning, and at its end.
    """
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1", "LITELLM_LOG": "ERROR"}
    # After the environment is set, which it reads at import.
    import litellm

    module = cast("_LiteLLM", litellm)
    module.disable_token_counter = True
    times: list[tuple[float, float, float, float]] = []
    for _ in range(count):
        began, used = time.time(), time.process_time()
        answer = await module.acompletion(**arguments, stream=True, max_retries=0, num_retries=0, timeout=60)
        async for _ in answer.completion_stream:
            pass
        times.append((began, used, time.time(), time.process_time()))
        await answer.aclose()
        await anyio.sleep(0.02)  # what it does in the background belongs to no call
    return times


def main() -> None:
    """Run as a program."""
    task = orjson.loads(Path(sys.argv[1]).read_bytes())
    times = anyio.run(call, task["arguments"], task["calls"])
    sys.stdout.write(orjson.dumps(times).decode())


if __name__ == "__main__":
    main()
