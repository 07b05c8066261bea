"""How models write a tool call as text: the grammars of vendors and of our own toolcall engines, by name.

A server without the right parser passes such text on as an answer's content, and a model that has lost its thread puts
it into a message. Sources: each vendor's chat template, as vLLM's and SGLang's tool parsers document it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import orjson

from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.testing.openai_replies import Completion, text

__all__ = ["CALL_GRAMMARS", "REASONING_FORMS", "CallGrammar", "reply_in_grammar"]


@dataclass(frozen=True, slots=True)
class CallGrammar:
    """One way of writing a call."""

    write: Callable[[str, JsonObject], str]
    """Returns the call of a tool with these arguments."""
    source: str
    """Whose it is, and where it is documented."""


def _json(value: JsonValue) -> str:
    return orjson.dumps(value).decode()


def _named(name: str, arguments: JsonObject, key: str = "arguments") -> str:
    return _json({"name": name, key: arguments})


def _parameters(arguments: JsonObject, opening: str, closing: str) -> str:
    """Return a tag for each argument; `{0}` in `opening` is its name. Text stands as it is, the rest as JSON."""
    return "\n".join(
        f"{opening.format(key)}{value if isinstance(value, str) else _json(value)}{closing}"
        for key, value in arguments.items()
    )


def _dsml(name: str, arguments: JsonObject, frame: str = "function_calls") -> str:
    bar = "｜DSML｜"
    lines = [
        f'<{bar}parameter name="{key}" string="{"true" if isinstance(value, str) else "false"}">'
        f"{value if isinstance(value, str) else _json(value)}</{bar}parameter>"
        for key, value in arguments.items()
    ]
    body = "\n".join(lines)
    return f'<{bar}{frame}>\n<{bar}invoke name="{name}">\n{body}\n</{bar}invoke>\n</{bar}{frame}>'


def _glm(name: str, arguments: JsonObject, prefix: str = "") -> str:
    pairs = "\n".join(
        f"<{prefix}arg_key>{key}</{prefix}arg_key>\n<{prefix}arg_value>"
        f"{value if isinstance(value, str) else _json(value)}</{prefix}arg_value>"
        for key, value in arguments.items()
    )
    return f"<{prefix}tool_call>{name}\n{pairs}\n</{prefix}tool_call>"


def _invoke(name: str, arguments: JsonObject, tag: str = "") -> str:
    body = _parameters(arguments, f'<{tag}parameter name="{{0}}">', f"</{tag}parameter>")
    return f'<{tag}invoke name="{name}">\n{body}\n</{tag}invoke>'


def _minimax_m3(name: str, arguments: JsonObject) -> str:
    mark = "]<]minimax[>["

    def value_of(value: JsonValue) -> str:
        if isinstance(value, list):
            return "".join(f"{mark}<item>{value_of(item)}{mark}</item>" for item in value)
        return value if isinstance(value, str) else _json(value)

    body = "".join(f"{mark}<{key}>{value_of(value)}{mark}</{key}>" for key, value in arguments.items())
    return f'{mark}<tool_call>\n{mark}<invoke name="{name}">{body}{mark}</invoke>\n{mark}</tool_call>'


def _python(name: str, arguments: JsonObject) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _gemma(name: str, arguments: JsonObject) -> str:
    def value_of(value: JsonValue) -> str:
        if isinstance(value, str):
            return f'<|"|>{value}<|"|>'
        if isinstance(value, list):
            return f"[{','.join(map(value_of, value))}]"
        return _json(value)

    body = ",".join(f"{key}:{value_of(value)}" for key, value in arguments.items())
    return f"<|tool_call>call:{name}{{{body}}}<tool_call|>"


def _elements(name: str, arguments: JsonObject) -> str:
    def value_of(value: JsonValue) -> str:
        if isinstance(value, list):
            return "".join(f"<item>{value_of(item)}</item>" for item in value)
        return value if isinstance(value, str) else _json(value)

    body = "\n".join(f"  <{key}>{value_of(value)}</{key}>" for key, value in arguments.items())
    return f"<{name}>\n{body}\n</{name}>"


def _yaml(name: str, arguments: JsonObject) -> str:
    lines: list[str] = []
    for key, value in arguments.items():
        if isinstance(value, list):
            lines += [f"{key}:", *(f"  - {_json(item)}" for item in value)]
        else:
            lines.append(f"{key}: {_json(value)}")
    return "\n".join([f"<{name}>", *lines, f"</{name}>"])


def _v3(name: str, arguments: JsonObject) -> str:
    thoughts: JsonObject = {"observe": "SECRET", "analyze_infer": "SECRET", "plan": "SECRET"}
    return _json({"thoughts": thoughts, "actions": [{"function": name, "params": arguments}]})


def _v3_history(name: str, arguments: JsonObject) -> str:
    params = "".join(
        f"<{key}>{value if isinstance(value, str) else _json(value)}</{key}>" for key, value in arguments.items()
    )
    return f"<action>\n  <function>{name}</function>\n  <params>{params}</params>\n</action>"


CALL_GRAMMARS: Mapping[str, CallGrammar] = MappingProxyType(
    {
        "deepseek-v3": CallGrammar(
            lambda name, given: (
                f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{_json(given)}\n```"
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
            "DeepSeek-V3 and R1",
        ),
        "deepseek-v3.1": CallGrammar(
            lambda name, given: (
                f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{_json(given)}"
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
            "DeepSeek-V3.1",
        ),
        "deepseek-dsml": CallGrammar(_dsml, "DeepSeek-V3.2, DSML"),
        "deepseek-dsml-v4": CallGrammar(lambda name, given: _dsml(name, given, "tool_calls"), "DeepSeek-V4, DSML"),
        "deepseek-dsml-json": CallGrammar(
            lambda name, given: (
                f'<｜DSML｜function_calls>\n<｜DSML｜invoke name="{name}">\n{_json(given)}\n</｜DSML｜invoke>\n'
                "</｜DSML｜function_calls>"
            ),
            "DeepSeek-V3.2, DSML with JSON inside",
        ),
        "qwen": CallGrammar(
            lambda name, given: f"<tool_call>\n{_named(name, given)}\n</tool_call>", "Hermes, Qwen2.5, 3"
        ),
        "qwen-coder": CallGrammar(
            lambda name, given: (
                f"<tool_call>\n<function={name}>\n{_parameters(given, '<parameter={0}>', '</parameter>')}\n"
                "</function>\n</tool_call>"
            ),
            "Qwen3-Coder, MiMo",
        ),
        "mistral": CallGrammar(lambda name, given: f"[TOOL_CALLS] [{_named(name, given)}]", "Mistral, tokenizer v3"),
        "mistral-v11": CallGrammar(
            lambda name, given: f"[TOOL_CALLS]{name}[ARGS]{_json(given)}", "Mistral, tokenizer v11"
        ),
        "llama-json": CallGrammar(
            lambda name, given: f"<|python_tag|>{_named(name, given, 'parameters')}<|eom_id|>", "Llama 3.1"
        ),
        "llama-function": CallGrammar(lambda name, given: f"<function={name}>{_json(given)}</function>", "Llama 3.1"),
        "llama-python": CallGrammar(lambda name, given: f"[{_python(name, given)}]", "Llama 3.2 and 4"),
        "kimi-k2": CallGrammar(
            lambda name, given: (
                f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>"
                f"{_json(given)}<|tool_call_end|><|tool_calls_section_end|>"
            ),
            "Kimi K2",
        ),
        "glm": CallGrammar(_glm, "GLM-4.5 to 4.7"),
        "longcat": CallGrammar(lambda name, given: _glm(name, given, "longcat_"), "LongCat"),
        "minimax": CallGrammar(
            lambda name, given: f"<minimax:tool_call>\n{_invoke(name, given)}\n</minimax:tool_call>", "MiniMax M2"
        ),
        "minimax-m3": CallGrammar(_minimax_m3, "MiniMax M3"),
        "anthropic": CallGrammar(
            lambda name, given: f"<function_calls>\n{_invoke(name, given)}\n</function_calls>", "Claude"
        ),
        "antml": CallGrammar(
            lambda name, given: f"<function_calls>\n{_invoke(name, given, 'antml:')}\n</function_calls>",
            "Claude, with its prefix",
        ),
        "gemini": CallGrammar(
            lambda name, given: f"```tool_code\nprint(default_api.{_python(name, given)})\n```", "Gemini's tool_code"
        ),
        "gemma": CallGrammar(_gemma, "Gemma 4"),
        "gpt-oss": CallGrammar(
            lambda name, given: (
                f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_json(given)}<|call|>"
            ),
            "gpt-oss, harmony",
        ),
        "gpt-oss-bare": CallGrammar(
            lambda name, given: f"assistantcommentary to=functions.{name} json{_json(given)}",
            "gpt-oss where the server has dropped the tokens",
        ),
        "granite": CallGrammar(lambda name, given: f"<|tool_call|>[{_named(name, given)}]", "Granite 3"),
        "granite-20b": CallGrammar(lambda name, given: f"<function_call> {_named(name, given)}", "Granite 20B"),
        "seed": CallGrammar(
            lambda name, given: (
                f"<seed:tool_call>\n<function={name}>\n{_parameters(given, '<parameter={0}>', '</parameter>')}\n"
                "</function>\n</seed:tool_call>"
            ),
            "Seed-OSS",
        ),
        "doubao": CallGrammar(
            lambda name, given: f"<|FunctionCallBegin|>[{_named(name, given, 'parameters')}]<|FunctionCallEnd|>",
            "Doubao",
        ),
        "internlm": CallGrammar(
            lambda name, given: f"<|action_start|><|plugin|>\n{_named(name, given, 'parameters')}<|action_end|>",
            "InternLM2",
        ),
        "cohere": CallGrammar(
            lambda name, given: (
                "<|START_ACTION|>[\n"
                f"{_json({'tool_call_id': '0', 'tool_name': name, 'parameters': given})}\n]<|END_ACTION|>"
            ),
            "Command A",
        ),
        "phi": CallGrammar(lambda name, given: f"functools[{_named(name, given)}]", "Phi-4-mini"),
        "step3": CallGrammar(
            lambda name, given: (
                f"<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>{_invoke(name, given, 'steptml:')}"
                "<｜tool_call_end｜><｜tool_calls_end｜>"
            ),
            "Step3",
        ),
        "hunyuan": CallGrammar(
            lambda name, given: f"<tool_calls>[{_named(name, given)}]</tool_calls>", "Hunyuan, Jamba"
        ),
        "ernie": CallGrammar(lambda name, given: f"<tool_call>\n{_named(name, given)}\n</tool_call>\n", "ERNIE 4.5"),
        "nemotron": CallGrammar(lambda name, given: f"<TOOLCALL>[{_named(name, given)}]</TOOLCALL>", "Nemotron Nano"),
        "lfm": CallGrammar(
            lambda name, given: f"<|tool_call_start|>[{_python(name, given)}]<|tool_call_end|>", "LFM2, MiniCPM"
        ),
        "olmo": CallGrammar(
            lambda name, given: f"<function_calls>\n{_python(name, given)}\n</function_calls>", "OLMo 3"
        ),
        "apertus": CallGrammar(
            lambda name, given: f"<|tools_prefix|>[{_json({name: given})}]<|tools_suffix|>", "Apertus"
        ),
        "gigachat": CallGrammar(lambda name, given: f"<|function_call|>{_named(name, given)}", "GigaChat 3"),
        "lmstudio": CallGrammar(
            lambda name, given: f"[TOOL_REQUEST]{_named(name, given)}[END_TOOL_REQUEST]", "LM Studio's default form"
        ),
        "xlam": CallGrammar(lambda name, given: f"[{_named(name, given)}]", "xLAM, bare JSON"),
        "json": CallGrammar(_named, "bare JSON"),
        "json-fence": CallGrammar(lambda name, given: f"```json\n{_named(name, given)}\n```", "JSON in a fence"),
        "openai": CallGrammar(
            lambda name, given: _json(
                {"tool_calls": [{"id": "c", "type": "function", "function": {"name": name, "arguments": _json(given)}}]}
            ),
            "OpenAI's own object, written out",
        ),
        "langchain": CallGrammar(
            lambda name, given: _json({"action": name, "action_input": given}), "LangChain's JSON agent"
        ),
        "react": CallGrammar(
            lambda name, given: f"Thought: SECRET\nAction: {name}\nAction Input: {_json(given)}", "ReAct"
        ),
        "v3": CallGrammar(_v3, "our engine v3"),
        "v3-history": CallGrammar(_v3_history, "earlier turns of our engine v3"),
        "morph-xml": CallGrammar(_elements, "our engine morph-xml"),
        "yaml-xml": CallGrammar(_yaml, "our engine yaml-xml"),
    }
)
"""Every grammar, by name."""

REASONING_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "think": "<think>SECRET</think>",
        "thinking": "<thinking>SECRET</thinking>",
        "seed": "<seed:think>SECRET</seed:think>",
        "antml": "<thinking>SECRET</thinking>",
        "kimi-vl": "◁think▷SECRET◁/think▷",
        "magistral": "[THINK]SECRET[/THINK]",
        "cohere": "<|START_THINKING|>SECRET<|END_THINKING|>",
        "gpt-oss": "<|channel|>analysis<|message|>SECRET<|end|>",
        "kimi-k3": "<|open|>think<|sep|>SECRET<|close|>think<|sep|>",
        "gemma": "<|channel>thought\nSECRET<channel|>",
    }
)
"""Reasoning as text in front of an answer, by who writes it so."""


def reply_in_grammar(grammar: str, name: str, arguments: JsonObject, *, pieces: int = 1) -> Completion:
    """Answer with a call written as the text that `CALL_GRAMMARS[grammar]` makes of it."""
    return text(CALL_GRAMMARS[grammar].write(name, arguments), pieces=pieces)
