"""`check --online` against real servers: what it proves, what it costs, and what it says of each way to fail."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from ishiki.cli.arguments import CheckArguments, Online, parse_arguments
from ishiki.cli.check import run_check
from ishiki.testing.openai_replies import RawReply, call, error, text, tool_calls
from ishiki.testing.openai_server import ChatRequest, OpenAIServer
from ishiki.testing.vendor_server import VendorServer
from ishiki.testing.vendor_wires import Wire

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),  # LiteLLM's own, in its wrapper
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),  # its models, when they are made
]

KEY = "sk-online-key-1234567"
WORD = tool_calls([call("report", {"word": "ready"})])


def answer(request: ChatRequest) -> RawReply:
    """Fail the test where more is asked than was scripted."""
    raise AssertionError(f"request {request.number} was one too many: {request.all_text}")


class Owner:
    """Somebody who has written a configuration and checks it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "profiles/neko").mkdir(parents=True)
        (folder / "bot.py").touch()
        self.profile('model: "far:test-model"')

    def profile(self, model: str) -> None:
        """Write the profile."""
        file = self.folder / "profiles/neko/profile.yaml"
        file.write_text(f'{model}\nchannels: {{"onebot:*": ["*"]}}\n', encoding="utf-8")

    def models(self, base_url: str, *, api: str = "openai-completions", model: str = "test-model") -> None:
        """Write models.yaml."""
        provider = f'api: {api}, base_url: "{base_url}", api_key: "${{FAR_KEY}}", models: [{{id: "{model}"}}]'
        (self.folder / "profiles/models.yaml").write_text(f"providers:\n  far: {{{provider}}}\n", encoding="utf-8")

    async def check(self, online: Online | None = "used", key: str = KEY) -> tuple[int, list[str]]:
        """Check it, and return the status and the lines."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
        run = partial(
            run_check, CheckArguments(online=online), folder=self.folder, environ={"FAR_KEY": key, "PORT": port}
        )
        with anyio.fail_after(60):
            status = await anyio.to_thread.run_sync(run)
        out = self._capsys.readouterr().out
        assert KEY not in out
        return status, out.splitlines()


@pytest.fixture
def owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Owner:
    """Make one."""
    return Owner(tmp_path, capsys)


def errors(lines: list[str]) -> list[str]:
    """Return the errors of an output."""
    return [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]


def test_the_flag_takes_which_models_and_means_the_used_ones() -> None:
    """Issue: `--online` and `--online all`."""
    assert parse_arguments(["check"]) == CheckArguments()
    assert parse_arguments(["check", "--online"]) == CheckArguments(online="used")
    assert parse_arguments(["check", "--online", "all"]) == CheckArguments(online="all")


async def test_a_good_model_costs_two_answers_and_is_told_with_its_tokens(owner: Owner) -> None:
    """Issue: a key, a name and a tool call with one request each."""
    async with OpenAIServer(answer, api_key=KEY, models=["other", "test-model"]) as server:
        server.enqueue(text("ready"), WORD)
        owner.models(server.base_url)
        status, lines = await owner.check()
        assert (status, errors(lines)) == (0, [])
        (told,) = [line for line in lines if line.startswith("  far:test-model: ")]
        assert told.startswith("  far:test-model: works: is one of 2 models; answered 'ready'; called the tool; ")
        assert told.endswith(" tokens")
        words, tools = server.requests
        assert (words.tool_names, tools.tool_names) == ([], ["report"])
        assert server.violations == []


@pytest.mark.parametrize(
    ("wire", "api"),
    [
        ("anthropic", "anthropic-messages"),
        ("responses", "openai-responses"),
        ("gemini", "google-generative-ai"),
    ],
)
async def test_every_api_is_proved_in_its_own_way(owner: Owner, wire: Wire, api: str) -> None:
    """Issue: it works for all apis of the gateway."""
    async with VendorServer(wire, api_key=KEY) as server:
        owner.models(server.base_url, api=api)
        server.enqueue(text("ready"), WORD)
        status, lines = await owner.check()
        assert (status, errors(lines)) == (0, [])
        assert any("is one of 1 models; answered 'ready'; called the tool" in line for line in lines)
        assert server.violations == []
        # A wrong key is found by the list already, and nothing is paid for.
        status, lines = await owner.check(key="sk-of-somebody-else")
        assert status == 1
        assert "the key is not valid there; check the value of FAR_KEY in .env" in errors(lines)[0]
        assert (server.lists, len(server.requests)) == (2, 2)


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (error(402, "Insufficient Balance"), "the account has no credit"),
        (error(429, "You exceeded your current quota, please check billing"), "the account has no credit"),
        (error(429, "Rate limit reached"), "the provider refuses for now"),
        (error(403, "Incorrect API key provided"), "the key is not valid there"),
        (error(400, "Model Not Exist"), "there is no such model"),
        (error(404, "The model `test-model` does not exist"), "there is no such model"),
        (error(503, "overloaded"), "the server does not answer"),
    ],
)
async def test_a_refusal_is_told_with_what_to_do(owner: Owner, reply: RawReply, what: str) -> None:
    """Issue: tells for each what is wrong and what to do; nothing more is asked then."""
    async with OpenAIServer(answer, models=["test-model-2", "unlike"]) as server:
        server.enqueue(reply)
        owner.models(server.base_url)
        status, lines = await owner.check()
        (problem,) = errors(lines)
        assert status == 1
        assert problem.startswith(f"far:test-model: {what}; ")
        if what == "there is no such model":
            assert "such as test-model-2" in problem
        assert len(server.requests) == 1


async def test_a_model_that_takes_no_tools_is_told_of_the_engines_for_such(owner: Owner) -> None:
    """Issue: tools not supported -> use a toolcall engine."""
    async with OpenAIServer(answer) as server:
        server.enqueue(text("ready"), error(400, "registry.ollama.ai/library/x does not support tools"))
        owner.models(server.base_url)
        status, lines = await owner.check()
        assert status == 1
        assert "it takes no tools" in errors(lines)[0]
        assert "toolcall: {engine: hermes}" in errors(lines)[0]
        server.enqueue(text("ready"), text("I have no tools."))
        status, lines = await owner.check()
        assert status == 0
        assert any(line.startswith("warning: far:test-model: it was offered a tool and wrote") for line in lines)


async def test_a_profile_whose_calls_are_text_is_offered_no_tool(owner: Owner) -> None:
    """Our choice: what a mind will not use needs no proof."""
    owner.profile('model: "far:test-model"\ntoolcall: {engine: hermes}')
    async with OpenAIServer(answer) as server:
        server.enqueue(text("ready"))
        owner.models(server.base_url)
        status, _ = await owner.check()
        assert (status, len(server.requests)) == (0, 1)


async def test_a_server_without_a_list_is_asked_all_the_same(owner: Owner) -> None:
    """Our choice: lists are not everywhere, nor is everything in them."""
    async with OpenAIServer(answer, models=["only-another"]) as server:
        server.enqueue(text("ready"), WORD)
        owner.models(server.base_url)
        status, lines = await owner.check()
        assert status == 0
        assert any("is not in the list of models; answered" in line for line in lines)


async def test_an_address_where_nobody_is_is_told_without_an_answer_being_asked_for(owner: Owner) -> None:
    """Issue: address wrong."""
    async with OpenAIServer(answer) as server:
        owner.models(server.base_url + "/chat/completions")
        status, lines = await owner.check()
        assert status == 1
        assert "nothing answers at this address; base_url ends in the endpoint /chat/completions" in errors(lines)[0]
        assert f"write {server.base_url} (" in errors(lines)[0]
        gone = server.base_url
    owner.models(gone)
    status, lines = await owner.check()
    assert status == 1
    assert "the server does not answer; check base_url, the network, and HTTPS_PROXY" in errors(lines)[0]


async def test_only_what_profiles_use_is_asked_unless_all_is_wanted(owner: Owner) -> None:
    """Issue: `--online all`."""
    owner.profile("model: demo:offline")
    async with OpenAIServer(answer) as server:
        owner.models(server.base_url)
        status, lines = await owner.check()
        assert (status, server.requests) == (0, [])
        assert "  none: no profile uses a model of a configured provider" in lines
        server.enqueue(text("ready"), WORD)
        status, lines = await owner.check("all")
        assert (status, len(server.requests)) == (0, 2)
        status, lines = await owner.check(None)
        assert "models, asked over the network:" not in lines


async def test_a_model_behind_litellm_is_asked_without_a_list(owner: Owner) -> None:
    """Issue: `litellm`: the call only."""
    owner.profile('model: "far:openai/plain-model"')
    async with OpenAIServer(answer) as server:
        server.enqueue(text("ready"), WORD)
        owner.models(server.base_url, api="litellm", model="openai/plain-model")
        status, lines = await owner.check()
        assert (status, errors(lines)) == (0, [])
        assert any("works: answered 'ready'; called the tool" in line for line in lines)
