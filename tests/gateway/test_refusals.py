"""What a provider's words mean. Each row's words are a vendor's or server's own, shortened; its name stands beside."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.errors import ModelError, ModelErrorKind
from ishiki.gateway.refusals import judge
from ishiki.testing import openai_replies as replies

from .kit import answer, text_of
from .test_groups import pair

TOO_LONG = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "Anthropic": "prompt is too long: 208310 tokens > 200000 maximum",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
    "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 8192",
    "Zhipu": "Prompt 超长",
    "Zhipu, English": "Prompt exceeds max length",
    "DashScope": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
    "Volcengine": "Total tokens of image and text exceed max message tokens. Request id: 0217",
    "Volcengine, input": "Input length 50000 exceeds the maximum length 32768",
    "SiliconFlow": "length of prompt_tokens (40000) must be less than max_seq_len (32768).",
    "TGI": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "Ollama": "the input length exceeds the context length",
    "LM Studio": "Trying to keep the first 5000 tokens when context the overflows. However, …",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    "Together": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097",
    "Groq": "Please reduce the length of the messages or completion.",
    "a proxy": "上下文长度超出模型限制",
}

CONTENT = {
    "OpenAI": "Your request was rejected as a result of our safety system.",
    "Azure": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "DeepSeek": "Content Exists Risk",
    "DashScope": "Input data may contain inappropriate content.",
    "DashScope, code": '{"code": "data_inspection_failed", "message": "<400> InternalError.Algo.DataInspectionFailed"}',
    "Zhipu": "系统检测到输入或生成内容可能包含不安全或敏感内容，请您避免输入易产生敏感内容的提示语",
    "Moonshot": "The request was rejected because it was considered high risk",
    "Volcengine": "The request failed because the input text may contain sensitive information.",
    "OpenRouter": "openai/gpt requires moderation. Your input was flagged for violence.",
    "Gemini": "The prompt was blocked: PROHIBITED_CONTENT",
}

NO_LINE: dict[str, tuple[str, ModelErrorKind]] = {
    "DeepSeek, name": ("Model Not Exist", "not_found"),
    "OpenAI, name": ("The model `gpt-9` does not exist or you do not have access to it.", "not_found"),
    "OpenRouter, name": ("gpt-9 is not a valid model ID", "not_found"),
    "Zhipu, name": ("模型不存在，请检查模型代码。", "not_found"),
    "Gemini, key": ("API key not valid. Please pass a valid API key.", "auth"),
    "Gemini, place": ("User location is not supported for the API use.", "auth"),
    "Anthropic, credit": ("Your credit balance is too low to access the Anthropic API.", "auth"),
    "DashScope, debt": ("Access denied, please make sure your account is in good standing. Arrearage", "auth"),
    "a proxy, debt": ("用户余额不足", "auth"),
    "Gemini, quota": ("You exceeded your current quota", "auth"),
    "a proxy, load": ("当前分组上游负载已饱和，请稍后再试", "unavailable"),
    "a proxy's 502": ("<html><head><title>502 Bad Gateway</title></head></html>", "unavailable"),
    "vLLM, load": ("upstream connect error or disconnect/reset before headers", "unavailable"),
    "Zhipu, rate": ("您当前使用该API的并发数过高，请降低并发", "rate"),
    "Ollama, tools": ("registry.ollama.ai/library/gemma:2b does not support tools", "bad_request"),
    "vLLM, tools": ('"auto" tool choice requires --enable-auto-tool-choice and …', "bad_request"),
    "nobody": ("invalid", "bad_request"),
    "nothing": ("", "bad_request"),
}  # fmt: skip


@pytest.mark.parametrize("vendor", TOO_LONG)
def test_a_request_that_is_too_long_is_known_by_every_vendors_words(vendor: str) -> None:
    """Issue, models: six of twelve were taken for a refused line."""
    for status in (400, 422, 500, None):
        assert judge(status, TOO_LONG[vendor]).kind == "context_length"


@pytest.mark.parametrize("vendor", CONTENT)
def test_only_words_that_blame_content_do(vendor: str) -> None:
    """Issue, models: these withhold the line."""
    for status in (400, 403, 422, None):
        assert judge(status, CONTENT[vendor]).kind == "refused"


@pytest.mark.parametrize("case", NO_LINE)
def test_words_that_blame_no_line_are_no_refusal_of_one(case: str) -> None:
    """Issue, models: name, key, place, credit, tools, load in a 400's clothes."""
    words, kind = NO_LINE[case]
    assert judge(400, words).kind == kind


@pytest.mark.parametrize("case", NO_LINE)
async def test_a_refusal_that_blames_no_line_moves_on_to_the_next_member(tmp_path: Path, case: str) -> None:
    """Issue, models: in a group with a second member the second was never asked."""
    words, kind = NO_LINE[case]
    async with pair(tmp_path) as it:
        it.first.enqueue(replies.error(400, words))
        assert text_of(await answer(it.gateway.model("main"))) == "by the second"
        assert it.asked() == (1, 1)
        it.first.enqueue(replies.error(400, words))
        with pytest.raises(ModelError) as raised:
            await answer(it.gateway.model("one:m"))
        assert raised.value.kind == kind
        assert raised.value.retryable


async def test_a_model_without_tools_is_answered_with_what_its_owner_can_do(tmp_path: Path) -> None:
    """Issue, models: each silence names its reason."""
    async with pair(tmp_path) as it:
        it.first.enqueue(replies.error(400, NO_LINE["Ollama, tools"][0]))
        with pytest.raises(ModelError, match="toolcall engine"):
            await answer(it.gateway.model("one:m"))
        assert it.asked() == (1, 0)


@given(st.one_of(st.none(), st.integers(400, 599)), st.text(max_size=300))
def test_any_words_have_a_meaning(status: int | None, words: str) -> None:
    """Our choice: nothing that a server says raises."""
    assert judge(status, words).kind


@pytest.mark.parametrize("piece", ["content ", "model ", "reasoning ", "schema", "max tokens ", "role ", '{"a":', "的"])
def test_what_is_long_is_judged_by_its_beginning(piece: str) -> None:
    """Design, section 2: a provider may answer with a whole page; what is looked at is bounded."""
    assert judge(400, "API key not valid. " + piece * 100_000).kind == "auth"
