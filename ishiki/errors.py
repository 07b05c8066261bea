"""Every error that Ishiki raises on purpose, one tree.

    IshikiError
    ├── ConfigError              a file or setting that its owner can mend (file, line, column, key)
    │   └── GatewayError         models.yaml, or a model reference
    ├── ActivationError          a profile cannot run: it waits for a service, or an engine refused it
    ├── AgentError               the agent was used wrongly, or a turn cannot be assembled
    │   ├── AgentBusyError       `send(if_busy="reject")` met a running turn
    │   ├── AgentStoppedError    the agent is stopping or has stopped
    │   ├── ToolConflictError    two owners of one tool name
    │   ├── ToolChoiceError      the model ignored an enforced tool choice
    │   └── HookError            an extension's or engine's hook raised or hung; names its owner
    ├── ModelError               a model call failed (kind, retryable, retry_after_s)
    ├── ToolError                goes to the model, as the tool call's error result
    ├── ResourceError            a resource URL cannot be read (code, see below)
    ├── StorageError             a log on disk is damaged, foreign, or cannot be written (path, line)
    └── ServiceConflictError     a second provider of one service name

`code` is stable and is what tests and callers compare; the text is for people and may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, Self

__all__ = [
    "ActivationError",
    "AgentBusyError",
    "AgentError",
    "AgentStoppedError",
    "ConfigError",
    "GatewayError",
    "HookError",
    "IshikiError",
    "ModelError",
    "ModelErrorKind",
    "ResourceError",
    "ResourceErrorCode",
    "ServiceConflictError",
    "StorageError",
    "ToolChoiceError",
    "ToolConflictError",
    "ToolError",
]


class IshikiError(Exception):
    """The root of the tree.

    Attributes:
        code: a stable identifier in snake_case; compare this, never the text.
    """

    default_code: ClassVar[str] = "ishiki_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """Keep `message` as the text and `code`, or the class's own code."""
        super().__init__(message)
        self.code = code or self.default_code


class ConfigError(IshikiError):
    """A configuration file or setting that its owner can mend.

    The text starts with the place (`path:line:column: key: `) as far as it is known, and ends with what to do.

    Attributes:
        file: the file, or None for a process setting.
        line: 1-based, or None.
        column: 1-based, or None.
        key: the dotted path of the key (`wakeup.standard.keywords[0]`), or "".
        problem: the text without its place.
        others: further errors found in the same reading, in the order of the file; their texts follow, one a line.
    """

    default_code = "config_invalid"

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str = "",
        code: str | None = None,
    ) -> None:
        """Compose the text from the place and `problem`."""
        place = "" if file is None and line is None else str(file or "<text>")
        if line is not None:
            place += f":{line}" + (f":{column}" if column is not None else "")
        super().__init__(": ".join(part for part in (place, key, problem) if part), code=code)
        self.file = file
        self.line = line
        self.column = column
        self.key = key
        self.problem = problem
        self.others: tuple[ConfigError, ...] = ()

    def __str__(self) -> str:
        """Return this error's text and those of the others, one a line."""
        return "\n".join([super().__str__(), *(str(other) for other in self.others)])

    def joined(self, others: Sequence[ConfigError]) -> Self:
        """Take `others`, found in the same reading, along with this error; return this error."""
        self.others += tuple(others)
        return self


class GatewayError(ConfigError):
    """A fault of `models.yaml`, or a model reference that names nothing usable."""

    default_code = "gateway_invalid"


class ActivationError(IshikiError):
    """A profile cannot run now.

    Attributes:
        profile_id: the profile.
        missing: names of the services it waits for; empty when it failed for good.
    """

    default_code = "activation_failed"

    def __init__(self, message: str, *, profile_id: str, missing: Sequence[str] = (), code: str | None = None) -> None:
        """Keep the profile and what it waits for."""
        super().__init__(message, code=code or ("service_missing" if missing else None))
        self.profile_id = profile_id
        self.missing = tuple(missing)


class AgentError(IshikiError):
    """The agent was used wrongly, or a turn cannot be assembled."""

    default_code = "agent_error"


class AgentBusyError(AgentError):
    """`send(trigger=True, if_busy="reject")` met a running turn."""

    default_code = "agent_busy"


class AgentStoppedError(AgentError):
    """The agent is stopping or has stopped; it takes nothing any more."""

    default_code = "agent_stopped"


class ToolConflictError(AgentError):
    """Two owners contribute a tool of the same name.

    Attributes:
        tool_name: the name.
        owners: both owners, the earlier first.
    """

    default_code = "tool_conflict"

    def __init__(self, tool_name: str, owners: tuple[str, str]) -> None:
        """Name the tool and both owners."""
        super().__init__(
            f"Tool conflict: {tool_name!r} is contributed by {owners[0]} and by {owners[1]}; rename or disable one"
        )
        self.tool_name = tool_name
        self.owners = owners


class ToolChoiceError(AgentError):
    """The model answered without the tool that the request demanded."""

    default_code = "tool_choice_ignored"


class HookError(AgentError):
    """A hook of an extension, engine or plugin raised or did not return in time.

    Attributes:
        owner: who owns the hook, such as `extension note`.
        hook: its name, such as `extend_tools`.
    """

    default_code = "hook_failed"

    def __init__(self, owner: str, hook: str, problem: str) -> None:
        """Name the owner, the hook and what happened."""
        super().__init__(f"{owner}: {hook} {problem}")
        self.owner = owner
        self.hook = hook


ModelErrorKind = Literal[
    "unconfigured",  # no key, or no usable member
    "auth",  # 401, 403
    "rate",  # 429
    "not_found",  # 404: the model or path does not exist there
    "context_length",  # the request is longer than the model takes
    "refused",  # the provider's words, or its content filter, blame what is said in the request
    "bad_request",  # the request is not taken as it is, and nothing says that what is said in it is to blame
    "unavailable",  # 5xx, connection faults, answers that are no answer
    "timeout",  # no first part, or no next part, in time
    "cut",  # the stream ended before its finish part
]
"""What kind of failure a model call met. Only `refused` and `context_length` blame the request's content; `bad_request`
may be about a setting, a field, the form of the history, or a fault of the server that looks like one of these."""


class ModelError(IshikiError):
    """A model call failed. The text is redacted: it holds no key and no header.

    Attributes:
        kind: see `ModelErrorKind`.
        retryable: whether the same request may succeed later or at another model.
        retry_after_s: seconds the provider asked to wait, or None.
        status: the HTTP status, or None.
    """

    default_code = "model_failed"

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        retryable: bool,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        """Keep the fields; `code` is `model_<kind>`."""
        super().__init__(message, code=f"model_{kind}")
        self.kind: ModelErrorKind = kind
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.status = status

    @property
    def blames_request(self) -> bool:
        """Whether sending the same content again would fail again, at any time."""
        return self.kind in ("refused", "context_length")


class ToolError(IshikiError):
    """Raised inside a tool to tell the model what went wrong; becomes the call's error result."""

    default_code = "tool_failed"


ResourceErrorCode = Literal[
    "invalid_resource_uri",
    "unsupported_view",
    "resource_unavailable",
    "resource_not_found",
    "resource_too_large",
    "resource_read_failed",
]


class ResourceError(IshikiError):
    """A resource URL cannot be read; `code` is one of `ResourceErrorCode`. Source: specification, extension API."""

    def __init__(self, code: ResourceErrorCode, message: str) -> None:
        """Keep the code; the argument order is the specification's."""
        super().__init__(message, code=code)


class StorageError(IshikiError):
    """A log on disk is damaged, belongs to something else, is of a newer version, or cannot be written.

    Attributes:
        path: the file.
        line: the 1-based line, where one is to blame.
    """

    default_code = "storage_failed"

    def __init__(self, message: str, *, path: Path | str, line: int | None = None, code: str | None = None) -> None:
        """Compose the text from the place and `message`."""
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {message}", code=code)
        self.path = path
        self.line = line


class ServiceConflictError(IshikiError):
    """A second provider of one service name; the first stays."""

    default_code = "service_conflict"
