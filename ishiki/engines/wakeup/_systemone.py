"""The `systemone` judge: an HTTP end that answers with calibrated probabilities. Source: specification, `jev`.

It goes to the configured address and nowhere else: a redirect is no answer, because the key would travel with it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus

import anyio
import httpx
import orjson

from ishiki.engines.wakeup._judge import QUESTIONS, Answers, JudgeCase, JudgeError, owned_question
from ishiki.jsonvalue import JsonObject, JsonValue, read_object

__all__ = ["SystemOneJudge"]

_MAX_ANSWER_BYTES = 256 * 1024
"""Three numbers take a hundred; what is longer is no answer."""


@cache
def _tls() -> ssl.SSLContext:
    """Return one context for all channels: each would read some hundred certificates."""
    return httpx.create_ssl_context()


class SystemOneJudge:
    """Asks one endpoint. Fits `Judge`."""

    def __init__(self, *, endpoint: str, api_key: str, model: str, instruction: str, timeout_s: float) -> None:
        """Ask `endpoint`, at most `timeout_s` seconds each time; nothing is opened before the first question."""
        self._endpoint = endpoint
        self._api_key = api_key
        self._model = model
        self._instruction = instruction
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None

    async def ask(self, case: JudgeCase) -> Answers:
        """Ask; see `Judge.ask`."""
        body = orjson.dumps(self._request(case))
        try:
            with anyio.fail_after(self._timeout_s):
                raw = await self._post(body)
            answer: JsonValue = orjson.loads(raw)
        except TimeoutError as error:
            raise JudgeError(f"no answer within {self._timeout_s:g} s") from error
        except orjson.JSONDecodeError as error:
            raise JudgeError("its answer is no JSON") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise JudgeError(f"{type(error).__name__}: {error}") from error
        if not isinstance(answer, Mapping):
            raise JudgeError("its answer is no JSON object")
        answers = read_object(answer, "answers")
        return Answers.read({name: read_object(answers, name).get("noul") for name in answers})

    async def aclose(self) -> None:
        """Close its connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"authorization": f"Bearer {self._api_key}", "content-type": "application/json"}
            self._client = httpx.AsyncClient(
                headers=headers, timeout=self._timeout_s, follow_redirects=False, verify=_tls()
            )
        return self._client

    async def _post(self, body: bytes) -> bytes:
        async with self._connected().stream("POST", self._endpoint, content=body) as response:
            if response.status_code != HTTPStatus.OK:
                raise JudgeError(f"HTTP status {response.status_code}")
            received = bytearray()
            async for piece in response.aiter_bytes():
                received += piece
                if len(received) > _MAX_ANSWER_BYTES:
                    raise JudgeError("its answer is too long")
            return bytes(received)

    def _request(self, case: JudgeCase) -> JsonObject:
        questions: dict[str, JsonValue] = {
            question.name: {
                "type": "noul",
                "instructions": owned_question(question, self._instruction),
                "criteria": {"true": question.true, "false": question.false},
            }
            for question in QUESTIONS
        }
        return {"model": self._model, "state": case.state(), "questions": questions}
