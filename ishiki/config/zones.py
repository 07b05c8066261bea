# ruff: noqa: RUF001 - the letters that people type, which look like others, are what this is about
"""Time zones by their IANA names, and what people mean who write another name.

Owns the advice. Abbreviations and bare offsets are no names of that database, and the ones that are there mislead: its
`Etc/GMT+8` lies eight hours west of Greenwich. Sources: the IANA time zone database; for the names of Windows, CLDR.
"""

from __future__ import annotations

import re
import zoneinfo

from ishiki.config.problems import nearest

__all__ = ["check_zone", "meant_zone", "reversed_offset"]

_SHANGHAI = "Asia/Shanghai"

_BY_ABBREVIATION = {
    "cst": _SHANGHAI, "bjt": _SHANGHAI, "china": _SHANGHAI, "beijing": _SHANGHAI, "peking": _SHANGHAI,
    "chinastandardtime": _SHANGHAI, "beijingtime": _SHANGHAI, "shenzhen": _SHANGHAI, "guangzhou": _SHANGHAI,
    "北京": _SHANGHAI, "北京时间": _SHANGHAI, "上海": _SHANGHAI, "中国": _SHANGHAI,

    "东八区": _SHANGHAI, "国内": _SHANGHAI,
    "hkt": "Asia/Hong_Kong", "香港": "Asia/Hong_Kong", "台北": "Asia/Taipei", "台湾": "Asia/Taipei",
    "taipeistandardtime": "Asia/Taipei", "sgt": "Asia/Singapore", "新加坡": "Asia/Singapore",
    "jst": "Asia/Tokyo", "东京": "Asia/Tokyo", "日本": "Asia/Tokyo", "tokyostandardtime": "Asia/Tokyo",
    "kst": "Asia/Seoul", "首尔": "Asia/Seoul", "韩国": "Asia/Seoul", "ist": "Asia/Kolkata", "msk": "Europe/Moscow",
    "ict": "Asia/Bangkok", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "pt": "America/Los_Angeles",
    "edt": "America/New_York", "et": "America/New_York", "mdt": "America/Denver", "cdt": "America/Chicago",
    "bst": "Europe/London", "cest": "Europe/Berlin", "aest": "Australia/Sydney", "aedt": "Australia/Sydney",
    "z": "UTC", "utc": "UTC", "gmt": "UTC", "世界时": "UTC",
}  # fmt: skip
"""By folded name. `CST` is China's here, as our users mean it; that of Chicago has a name of its own."""

_BY_MINUTES = {
    0: "UTC", 180: "Europe/Moscow", 210: "Asia/Tehran", 270: "Asia/Kabul", 330: "Asia/Kolkata", 345: "Asia/Kathmandu",
    390: "Asia/Yangon", 420: "Asia/Bangkok", 480: _SHANGHAI, 525: "Australia/Eucla", 540: "Asia/Tokyo",
    570: "Australia/Darwin", -180: "America/Sao_Paulo", -570: "Pacific/Marquesas",
}  # fmt: skip
"""Places that keep this offset all year."""

_OFFSET = re.compile(r"(?:utc|gmt|时区)?\s*([+-])\s*(\d{1,2})(?::?(00|15|30|45))?", re.IGNORECASE)
_REVERSED = re.compile(r"Etc/GMT([+-])(\d{1,2})")
_MAX_HOURS_WEST = 12
_MAX_HOURS_EAST = 14


def check_zone(name: str) -> str:
    """Return `name` if it is a time zone's.

    Raises:
        ValueError: it is none; the text says which is most likely meant.
    """
    if _is_known(name):
        return name
    meant = meant_zone(name)
    raise ValueError(f"no time zone of this name is known{f'; write {meant}' if meant else ''}")


def meant_zone(name: str) -> str | None:
    """Return the IANA name that `name` most likely stands for, or None."""
    text = name.strip().strip("\"'“”‘’:").replace("：", ":").replace("＋", "+").replace("－", "-").replace("−", "-")
    if _is_known(text) and not _REVERSED.fullmatch(text):
        return text
    folded = re.sub(r"[\s_./-]", "", text).lower()
    offset = _OFFSET.fullmatch(text.removeprefix("Etc/"))
    if offset is not None:
        return _of_offset(offset)
    if folded in _BY_ABBREVIATION:
        return _BY_ABBREVIATION[folded]
    zones = zoneinfo.available_timezones()
    city = folded.removeprefix("asia") if folded.removeprefix("asia") in _BY_ABBREVIATION else folded
    if city in _BY_ABBREVIATION:
        return _BY_ABBREVIATION[city]
    # `posix/…` and `right/…` are other tables of the same places.
    named = sorted(zone for zone in zones if not zone.startswith(("posix", "right", "Etc/")))
    by_city = [zone for zone in named if re.sub(r"[_-]", "", zone.rpartition("/")[2]).lower() == folded]
    return by_city[0] if by_city else nearest(text, named)


def reversed_offset(name: str) -> str | None:
    """Return what `name` really is where its sign is the reverse of what it looks like; None for others."""
    found = _REVERSED.fullmatch(name)
    if found is None or int(found[2]) == 0:
        return None
    return f"UTC{'-' if found[1] == '+' else '+'}{int(found[2])}"


def _is_known(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _of_offset(offset: re.Match[str]) -> str | None:
    sign = -1 if offset[1] == "-" else 1
    hours, minutes = int(offset[2]), int(offset[3] or 0)
    if hours > (_MAX_HOURS_EAST if sign > 0 else _MAX_HOURS_WEST):
        return None
    place = _BY_MINUTES.get(sign * (hours * 60 + minutes))
    if place is not None or minutes:
        return place
    return f"Etc/GMT{'-' if sign > 0 else '+'}{hours}"
