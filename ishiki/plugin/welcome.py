"""What is printed when the bot is ready: where it listens, who owns which channels, what to do next."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ishiki.config import Settings
from ishiki.gateway import DEMO_REF, Gateway
from ishiki.runtime.supervisor import Supervisor

__all__ = ["Listening", "welcome"]


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the server is."""

    host: str
    port: int
    is_server: bool = True
    """False: the driver has no server; only outgoing connections work."""

    @property
    def address(self) -> str:
        """`host:port`, as a URL takes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _python() -> str:
    """Return this interpreter as one types it here: the project's own, not whichever `python` comes first."""
    executable = Path(sys.executable)
    return str(executable.relative_to(Path.cwd())) if executable.is_relative_to(Path.cwd()) else str(executable)


def welcome(listening: Listening, settings: Settings, supervisor: Supervisor, gateway: Gateway) -> str:
    """Return the text, several lines."""
    lines = ["Ishiki is ready."]
    if listening.is_server:
        guard = "this machine only" if settings.onebot_access_token is None else "with ONEBOT_ACCESS_TOKEN"
        lines.append(f"  listens for OneBot v11 at ws://{listening.address}/onebot/v11/ws ({guard})")
    lines.extend(f"  connects to {url}" for url in settings.onebot_ws_urls)
    owners = supervisor.owner_lines()
    lines.extend(f"  {line}" for line in owners)
    if not owners:
        lines.append(f"  no profile runs: nobody answers. Write {settings.profiles_dir}/<id>/profile.yaml")
    lines.extend(
        f"  profile {name} waits for {', '.join(error.missing)}" for name, error in sorted(supervisor.waiting.items())
    )
    demo = supervisor.demo_profiles()
    if demo:
        lines.append(f"  {', '.join(demo)}: answered by {DEMO_REF}, which needs no key and no network")
        unset = gateway.unset_variables()
        how = f"set one of these in .env: {', '.join(unset)}" if unset else "describe it in models.yaml, and name it"
        lines.append(f"    for a real model, {how}")
    if listening.is_server:
        lines.append(f"  talk to it in a second terminal: {_python()} -m ishiki chat")
        lines.append("  connect QQ through NapCat, Lagrange or LLBot: see README.md")
    return "\n".join(lines)
