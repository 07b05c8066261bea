"""What a provider's words mean: which kind of failure it is, and which form of request it would have taken.

Compatible servers answer nearly everything with status 400, some with 500 or inside a stream that began with 200, so
that the words decide. A table and nothing else; sources are the vendors' documents and public issue trackers, named
beside the rows. What no row knows is a `bad_request`: it blames no line of the conversation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ishiki.errors import ModelErrorKind
from ishiki.gateway.wire_form import WireForm

__all__ = ["MAX_JUDGED_CHARS", "NO_TOOLS", "Judgement", "judge"]

MAX_JUDGED_CHARS = 4_000
"""Of a provider's words that are looked at; some answer with a whole page, and what counts stands at its beginning."""

NO_TOOLS = "the model takes no tools: name another, or a toolcall engine that writes calls as text (toolcall.engine)"
"""What an owner is told where tools are refused."""

_OF_STATUS: dict[int, ModelErrorKind] = {
    401: "auth",
    402: "auth",  # an empty account: nothing that another wording of the request would cure
    403: "auth",
    404: "not_found",
    405: "not_found",
    407: "unavailable",
    408: "timeout",
    409: "unavailable",
    410: "not_found",
    413: "context_length",
    425: "unavailable",
    429: "rate",
    499: "unavailable",
}
"""Statuses below 500 that say by themselves what is the matter. Source: reference, FailoverModel."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a refusal means."""

    kind: ModelErrorKind
    form: WireForm | None = None
    """What the words ask for; None where they ask for nothing that a request can be brought into."""
    is_final: bool = False
    """Whether it is known that no other form helps."""
    advice: str = ""
    """What an owner should do, where that is known."""


def judge(status: int | None, words: str) -> Judgement:
    """Return what a refusal means.

    Args:
        status: the HTTP status; None where the words came without one, as inside a stream.
        words: the provider's own, whole; only the first `MAX_JUDGED_CHARS` characters count.
    """
    said = words[:MAX_JUDGED_CHARS]
    by_status = _OF_STATUS.get(status or 0)
    if by_status in ("auth", "rate", "timeout") and status != 403:
        return Judgement(by_status, is_final=True)
    if _RATE.search(said) and status == 413:
        return Judgement("rate", is_final=True)
    if status == 413 or _TOO_LONG.search(said):
        return Judgement("context_length", is_final=True)
    if _NO_TOOLS.search(said):
        return Judgement("bad_request", is_final=True, advice=NO_TOOLS)
    if (form := _wanted_form(said)) is not None:
        return Judgement("bad_request", form)
    is_client_fault = status is None or 400 <= status < 500
    if is_client_fault and _CONTENT.search(said):
        return Judgement("refused", is_final=True)
    if by_status is not None:
        return Judgement(by_status, is_final=True)
    if status is None or not 400 <= status < 500:
        return Judgement("unavailable", is_final=True)
    for kind, pattern in _BLAMES_NO_LINE:
        if pattern.search(said):
            return Judgement(kind, is_final=True)
    return Judgement("bad_request")


def _wanted_form(said: str) -> WireForm | None:
    for pattern, form in _FORMS:
        if pattern.search(said):
            return form
    return None


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_TOO_LONG = _any(
    r"context_length_exceeded|context[ _-](?:length|window|size)|maximum context|maximum prompt length",
    r"prompt is too long|too many (?:input )?tokens|token limit|tokens? exceed",
    r"exceeds? .{0,20}max(?:imum)? .{0,20}tokens",
    r"input (?:token count|length|tokens).{0,60}(?:exceed|must)",
    r"exceeds? the (?:model'?s? )?max(?:imum)?.{0,20}(?:length|tokens)",
    # Mistral, TGI, SiliconFlow
    r"too large for model|must have less than \d+ tokens|max_new_tokens.{0,3} must be|max_seq_len",
    r"range of input length should be",  # DashScope
    r"exceed max message tokens",  # Volcengine Ark
    r"prompt exceeds max length|prompt.{0,4}(?:超长|过长)|上下文.{0,12}(?:长度|超)",  # Zhipu and proxies
    r"(?:输入|请求|文本|长度).{0,8}(?:超出|超过|过长).{0,12}(?:限制|长度|最大|token|$)",
    r"reduce the length of|keep the first \d+ tokens|max input characters|longer than the maximum",
)  # fmt: skip

_CONTENT = _any(
    r"content[ _-]?(?:filter|policy|management policy|moderation)|contentfilter|policy violation|usage polic",
    r"violat.{0,60}polic|data_?inspection|inappropriate|sensitive ?(?:words?|content|information|data|text)",
    r"sensitivecontent|content exists risk|(?:high|security|content) risk|considered (?:high )?risk",
    r"moderation|flagged|\bunsafe\b|harmful|prohibited[ _]content|prompt (?:was |is )?blocked|block_?reason",
    r"safety (?:system|reasons?|filters?|check|policy|guidelines)|word is not allowed",
    # Zhipu 1301, and what Chinese vendors and proxies write: sensitive, illegal, unsafe, refused by an audit.
    r"敏感|违规|违法|不安全|不合规|审核|风控",
)  # fmt: skip

_RATE = _any(
    r"rate.?limit|too many requests|throttl|concurren|tokens per (?:minute|day)|requests per|\b[tr]p[md]\b",
    r"频率|限流|并发|速率|请求过多",
)  # fmt: skip

_BLAMES_NO_LINE: tuple[tuple[ModelErrorKind, re.Pattern[str]], ...] = (
    (
        "auth",
        _any(
            r"api[ _-]?key|authenti|authoriz|permission|credential|access[ _-]?(?:denied|token)|forbidden",
            r"insufficient|balance|billing|\bcredits?\b|arrear|overdue|payment|subscription|quota",
            r"location is not supported|unsupported_country|\b(?:country|region)\b",
            r"account.{0,40}(?:disabled|deactivated|suspended|not )",
            r"令牌|鉴权|身份验证|密钥|欠费|余额|未开通",
        ),
    ),
    ("rate", _RATE),
    (
        "not_found",
        _any(
            r"model.{0,80}(?:not (?:be )?(?:found|exist|available|supported|open|loaded)|n[o']t exist|unknown|retired)",
            r"model.{0,80}(?:deprecated|no longer|decommission|is not valid|invalid)",
            r"(?:no such|unknown|invalid) model|not a valid model|model_not_found|modelnotopen",
            r"模型.{0,20}(?:不存在|不支持)",
        ),
    ),
    (
        "unavailable",
        _any(
            r"overload|temporar|try again|bad gateway|gateway time|upstream|internal (?:server )?error|unavailable",
            r"server.{0,20}busy|timed? ?out|<html|connection|no available channel|no healthy",
            r"无可用|繁忙|稍后|内部错误",
        ),
    ),
)  # fmt: skip
"""Words of a 4xx that is about the key, the account, the load, the name, or the server itself."""

_NO_TOOLS = _any(
    r"not support (?:tools?|function|tool use)|support tool use|tool use (?:is|has) not",
    r"(?:field|parameter)s? .?tools\b",
    r"tools? (?:is|are) not supported|function call(?:ing|s)? (?:is|are) not|--enable-auto-tool-choice",
)  # fmt: skip
"""Ollama, OpenRouter, vLLM and others. `tools` of a model that has none is no form that a mind can do without."""

_FORMS: tuple[tuple[re.Pattern[str], WireForm], ...] = (
    # Gemini, streamGenerateContent and its OpenAI door: a result is a Struct; a call carries its signature.
    (
        _any(r"function_?response|protobuf\.Struct|tool.{0,20}(?:content|result)s?.{0,40}\b(?:an? |json )object"),
        WireForm(results="object"),
    ),
    (_any(r"thought_?signature"), WireForm(signatures="google")),
    # DeepSeek thinking mode, Kimi K2 thinking: every assistant message carries the field.
    (
        _any(
            r"(?:missing|without|lacks?|require[sd]?|must|need).{0,60}reasoning_content",
            r"reasoning_content.{0,80}(?:missing|required|must be|passed? back|provided)",
        ),
        WireForm(reasoning="send"),
    ),
    (
        _any(
            r"(?:unexpected|unknown|unrecognized|unsupported|extra|not permitted|additional).{0,80}reasoning",
            r"reasoning(?:_content)?.{0,80}(?:not (?:allowed|supported|permitted)|unexpected|extra|unknown)",
        ),
        WireForm(reasoning="drop"),
    ),
    # Mistral: nine letters and digits.
    (_any(r"tool.?call.?id.{0,80}(?:length of 9|0-9)"), WireForm(call_ids="nine")),
    (_any(r"single tool.?calls?|one tool.?call|parallel tool calls"), WireForm(single_calls=True)),
    # Mistral 3230; chat templates of vLLM, TGI, llama.cpp, LM Studio; older DeepSeek reasoners; Anthropic (prefill).
    (_any(r"after role .{0,3}tool"), WireForm(roles="bridged")),
    (
        _any(
            r"system role|role.{0,4}system.{0,40}not|system message.{0,40}(?:beginning|first|not supported)",
            r"system messages? (?:is|are) not",
        ),
        WireForm(system="user", roles="alternating"),
    ),
    (
        _any(
            r"only user(?:,| and)|(?:unknown|invalid|unsupported|unexpected)(?: message)? role",
            r"role.{0,4}(?:tool|function)\b.{0,40}not|after role .{0,3}(?:user|assistant|system)",
        ),
        WireForm(roles="flat"),
    ),
    (
        _any(
            r"roles? must alternate|alternat|consecutive|successive|same role|interleav|in a row",
            r"(?:first|last) (?:message|role|turn).{0,40}\b(?:user|tool)|must (?:start|begin|end) with.{0,30}user",
            r"prefill|no user query|message[_ ]order|jinja|chat.?template|template ?error|rendering prompt",
        ),
        WireForm(roles="alternating"),
    ),
    # What OpenAI demands of a message, where others demand more.
    (
        _any(
            r"(?:content|messages?).{0,60}(?:(?:not|never) be (?:empty|null|none)|non-?empty|is empty|be empty)",
            r"content.{0,60}(?:none is not|(?:should|must) be a (?:valid )?string|got null|field required)",
            r"missing field .?content|either content or tool_calls|empty (?:content|message|text)",
            r"内容.{0,4}不能为空|参数.{0,12}不能为空",
        ),
        WireForm(filled=True),
    ),
    (
        _any(
            r"image_url|image input|not support (?:image|vision|multimodal)|input_audio|multimodal",
            r"unknown variant|only (?:supports? )?text",
        ),
        WireForm(media="text"),
    ),
    # Gemini's OpenAI door, and every other reader of a part of JSON Schema.
    (
        _any(
            r"additionalProperties|function_declarations|(?:unknown|unsupported|invalid).{0,40}(?:schema|keyword)",
            r"schema.{0,80}(?:not (?:valid|supported|allowed)|invalid|unsupported)|parameters.{0,60}schema",
            r"\$(?:ref|defs|schema)|\banyOf\b|\boneOf\b",
        ),
        WireForm(schemas="subset"),
    ),
    (_any(r"stream_options|include_usage"), WireForm(dropped=frozenset({"stream_options"}))),
    (_any(r"tool_choice"), WireForm(dropped=frozenset({"tool_choice"}))),
    (_any(r"max_completion_tokens"), WireForm(limit_name="max_completion_tokens")),
    (_any(r"reasoning_effort"), WireForm(dropped=frozenset({"reasoning_effort"}))),
    (_any(r"\btemperature\b"), WireForm(dropped=frozenset({"temperature"}))),
    (_any(r"\btop_p\b"), WireForm(dropped=frozenset({"top_p"}))),
    (_any(r"\bmax_tokens\b"), WireForm(dropped=frozenset({"max_tokens", "max_completion_tokens"}))),
)  # fmt: skip
"""Words, and the form that they ask for; the first row that fits counts. The more specific stand first."""
