"""The shipped models.yaml with a key alone, against a server that does what DeepSeek documents."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ishiki.jsonvalue import read_str
from ishiki.testing.bot_process import BotProcess
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.openai_replies import Reply, call, error, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer

from .stage import LIMIT_S

ROOT = Path(__file__).parents[2]
KEY = "sk-a-key-and-nothing-else"


def think(request: ChatRequest) -> Reply:
    """Answer as DeepSeek's thinking mode does: think first, and refuse calls that come back without their reasoning."""
    if request.model != "deepseek-flash":
        return error(400, "Model Not Exist")
    lacks = [one for one in request.messages if one.get("tool_calls") and not read_str(one, "reasoning_content")]
    if lacks:
        return error(400, "The reasoning_content in the thinking mode must be passed back to the API.")
    if request.messages[-1].get("role") == "tool":
        return tool_calls([call("finish", {})], reasoning="Enough was said.")
    return tool_calls([call("send_message", {"messages": [f"reply {request.number}"]})], reasoning="They greet me.")


async def test_the_shipped_file_answers_every_line_with_todays_deepseek_and_a_key_alone(tmp_path: Path) -> None:
    """DeepSeek API, thinking mode and models: on by default, reasoning back in turns with calls; `deepseek-flash`."""
    shutil.copy(ROOT / "bot.py", tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    async with OpenAIServer(think, api_key=KEY) as server:
        environment = {"DEEPSEEK_API_KEY": KEY, "DEEPSEEK_BASE_URL": server.base_url}
        async with (
            BotProcess(tmp_path, command=[sys.executable, "bot.py"], env=environment) as bot,
            OneBotPeer(bot.url) as peer,
        ):
            for count, line in enumerate(("one", "two", "three"), start=1):
                await peer.say(line)
                sent = await peer.wait_sent(count, within=LIMIT_S)
                assert sent[-1].text.startswith("reply ")
            assert server.violations == []
            assert "is left out" not in "\n".join(bot.log)
