"""The compose file: what a deployment must never get wrong. Docker itself is not asked; it may not be there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TypeAlias, cast

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
REQUIRED_TOKEN = "${ONEBOT_ACCESS_TOKEN:?set ONEBOT_ACCESS_TOKEN in .env}"

Node: TypeAlias = "dict[str, Node] | list[Node] | str | int | bool | None"


def node(*path: str) -> Node:
    """Return what stands at `path` in the compose file."""
    found = cast("Node", yaml.safe_load(TEXT))
    for key in path:
        assert isinstance(found, dict), f"{key} is looked for in {found!r}"
        found = found[key]
    return found


def mapping(*path: str) -> dict[str, Node]:
    """Return the mapping at `path`."""
    found = node(*path)
    assert isinstance(found, dict)
    return found


def sequence(*path: str) -> list[Node]:
    """Return the list at `path`."""
    found = node(*path)
    assert isinstance(found, list)
    return found


def text(*path: str) -> str:
    """Return the text at `path`."""
    found = node(*path)
    assert isinstance(found, str)
    return found


def test_there_is_the_bot_and_one_protocol_end_and_nothing_else() -> None:
    """Our choice (design, top level): the file holds NapCat and the bot."""
    assert set(mapping("services")) == {"ishiki", "napcat"}
    assert text("services", "napcat", "image").startswith("mlikiowa/napcat-docker")


def test_neither_end_starts_without_a_token() -> None:
    """Design, safety defaults: the compose file refuses to start without an access token."""
    assert node("services", "ishiki", "environment", "ONEBOT_ACCESS_TOKEN") == REQUIRED_TOKEN
    assert f'"token": "{REQUIRED_TOKEN}"' in text("configs", "onebot11", "content")
    uses = re.findall(r"\$\{ONEBOT_ACCESS_TOKEN[^}]*\}", TEXT)
    assert set(uses) == {REQUIRED_TOKEN}, "a use without :? would start with an empty token"


def test_no_port_is_published_beyond_this_machine() -> None:
    """Design, safety defaults: what is published, is published to 127.0.0.1; the bot's own port is not at all."""
    ports = [str(port) for service in mapping("services") for port in ports_of(service)]
    assert ports == ["127.0.0.1:6099:6099"]
    assert all(mapping("services", service).get("network_mode") is None for service in mapping("services"))


def ports_of(service: str) -> list[Node]:
    """Return the published ports of a service."""
    return sequence("services", service, "ports") if "ports" in mapping("services", service) else []


def test_napcat_is_told_to_connect_to_where_the_bot_listens() -> None:
    """NapCat 4.18, onebot11.json: one WebSocket client with the bot's address inside the network."""
    settings = json.loads(text("configs", "onebot11", "content"))
    (client,) = settings["network"]["websocketClients"]
    assert client["url"] == f"ws://ishiki:{node('services', 'ishiki', 'environment', 'PORT')}/onebot/v11/ws"
    assert client["enable"] is True
    assert node("services", "ishiki", "environment", "HOST") == "0.0.0.0"
    (config,) = sequence("services", "napcat", "configs")
    mode = node("services", "napcat", "environment", "MODE")
    assert config == {"source": "onebot11", "target": f"/app/templates/{mode}.json"}


@pytest.mark.parametrize(
    ("source", "is_read_only"), [("./data", False), ("./profiles", True), ("./plugins", True)], ids=str
)
def test_what_belongs_to_the_deployer_lies_outside_the_container(source: str, *, is_read_only: bool) -> None:
    """Our choice: data outlives the container, and only data is written; a missing folder is an error."""
    volumes = sequence("services", "ishiki", "volumes")
    (volume,) = [one for one in volumes if isinstance(one, dict) and one["source"] == source]
    assert volume["target"] == f"/app/{source.removeprefix('./')}"
    assert volume.get("read_only", False) is is_read_only
    assert volume["bind"] == {"create_host_path": False}


def test_the_qq_login_outlives_the_container() -> None:
    """NapCat-Docker, README: the two folders that keep the login and the settings."""
    mounted = {str(volume).partition(":")[2] for volume in sequence("services", "napcat", "volumes")}
    assert mounted == {"/app/napcat/config", "/app/.config/QQ"}


def test_the_image_is_made_of_files_that_exist_by_the_same_bootstrap() -> None:
    """Our choice: there is one way to install; the image takes it too."""
    dockerfile = text("services", "ishiki", "build", "dockerfile_inline")
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", dockerfile, flags=re.MULTILINE) for name in line.split()]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {"run", "bot.py", "tools", "ishiki", "pyproject.toml", "requirements.lock"} <= set(copied)
    assert ". tools/bootstrap.sh" in dockerfile
    assert 'CMD ["./run"]' in dockerfile


def test_the_bot_is_watched_and_started_again() -> None:
    """Our choice: a healthcheck on the port that NapCat connects to, and a restart but after a deliberate stop."""
    check = sequence("services", "ishiki", "healthcheck", "test")
    assert check[:2] == ["CMD", ".venv/bin/python"]
    assert str(node("services", "ishiki", "environment", "PORT")) in str(check[-1])
    assert node("services", "napcat", "depends_on", "ishiki") == {"condition": "service_healthy"}
    assert {text("services", name, "restart") for name in mapping("services")} == {"unless-stopped"}
