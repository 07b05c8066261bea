"""Addresses as people write them, and the right one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.gateway.addresses import address_advice
from ishiki.gateway.schema import Api

OPENAI: Api = "openai-completions"
OTHERS: list[Api] = ["openai-completions", "anthropic-messages"]


@pytest.mark.parametrize(
    ("api", "address"),
    [
        (OPENAI, "https://api.deepseek.com"),
        (OPENAI, "https://api.deepseek.com/v1/"),
        (OPENAI, "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        (OPENAI, "https://open.bigmodel.cn/api/paas/v4/"),
        (OPENAI, "https://ark.cn-beijing.volces.com/api/v3"),
        (OPENAI, "https://openrouter.ai/api/v1"),
        (OPENAI, "https://generativelanguage.googleapis.com/v1beta/openai/"),
        (OPENAI, "http://127.0.0.1:11434/v1"),
        (OPENAI, "https://gateway.example.org/team/a/openai"),
        ("anthropic-messages", "https://api.anthropic.com"),
        ("anthropic-messages", "https://api.anthropic.com/v1"),
        ("anthropic-messages", "https://api.deepseek.com/anthropic"),
        ("anthropic-messages", "https://proxy.example.org"),
        ("google-generative-ai", "https://generativelanguage.googleapis.com/v1beta"),
        ("openai-responses", "https://api.openai.com/v1"),
    ],
)
def test_a_right_address_is_left_alone(api: Api, address: str) -> None:
    """Vendors' API references; of a server that nobody knows, any path may be right."""
    assert address_advice(api, address) is None


@pytest.mark.parametrize(
    ("api", "address", "right"),
    [
        (OPENAI, "https://api.deepseek.com/chat/completions", "https://api.deepseek.com/v1"),
        (OPENAI, "https://api.moonshot.cn", "https://api.moonshot.cn/v1"),
        (OPENAI, "https://open.bigmodel.cn/api/paas/v4/chat/completions", "https://open.bigmodel.cn/api/paas/v4"),
        (OPENAI, "https://open.bigmodel.cn/v1", "https://open.bigmodel.cn/api/paas/v4"),
        (OPENAI, "https://bailian.console.aliyun.com/?tab=model#/api-key", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        (OPENAI, "https://www.siliconflow.cn/", "https://api.siliconflow.cn/v1"),
        (OPENAI, "https://dashscope.aliyuncs.com/apps/anthropic", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        (OPENAI, "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
        (OPENAI, "https://ark.cn-beijing.volces.com/api/v3/chat/completions", "https://ark.cn-beijing.volces.com/api/v3"),
        (OPENAI, "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        (OPENAI, "http://127.0.0.1:8000/chat/completions", "http://127.0.0.1:8000/v1"),
        (OPENAI, "https://proxy.example.org/x/v1/chat/completions/", "https://proxy.example.org/x/v1"),
        (OPENAI, "https://generativelanguage.googleapis.com/v1beta", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("openai-responses", "https://api.openai.com/v1/responses", "https://api.openai.com/v1"),
        ("anthropic-messages", "https://console.anthropic.com/settings/keys", "https://api.anthropic.com/v1"),
        ("anthropic-messages", "https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("google-generative-ai", "https://generativelanguage.googleapis.com", "https://generativelanguage.googleapis.com/v1beta"),
        ("google-generative-ai", "https://g.example.org/v1beta/models/x:generateContent", "https://g.example.org/v1beta"),
    ],
)  # fmt: skip
def test_a_wrong_address_is_answered_with_the_right_one(api: Api, address: str, right: str) -> None:
    """Our choice: an endpoint, no version, a page of the console, the door for another protocol."""
    advice = address_advice(api, address)
    assert advice is not None
    assert advice.endswith(f" {right}")


@given(
    st.sampled_from(["openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"]),
    st.sampled_from(["api.deepseek.com", "open.bigmodel.cn", "platform.openai.com", "me.example.org", "127.0.0.1:1"]),
    st.lists(
        st.sampled_from(["v1", "chat", "completions", "messages", "anthropic", "v1beta", "models", "x"]), max_size=4
    ),
)
def test_the_address_that_is_advised_is_left_alone(api: Api, host: str, path: list[str]) -> None:
    """Our choice: advice leads to an end."""
    advice = address_advice(api, "/".join(["https:/", host, *path]))
    if advice is not None:
        spoken: list[Api] = [*(other for other in OTHERS if f"api: {other} and" in advice), api]
        assert address_advice(spoken[0], advice.rpartition(" ")[2]) is None
