"""JSON records: docker's json-file, journald, CloudWatch, Loki, fluentd, Google and JSON loggers of Python.

The message is looked for under the names that they use; the first that is there is taken.
"""

from __future__ import annotations

import json
from typing import Any

from kvdiag.diagnosis.carriers.carrier import Carrier, Peeled

_MESSAGES = ("log", "MESSAGE", "message", "msg", "event", "line", "text", "textPayload", "@message", "_raw", "content",
             "body", "Log", "LogMessage", "LogEntry")  # fmt: skip
_NESTS = ("jsonPayload", "record", "fields", "result", "data", "attributes")
_CLOCKS = ("time", "timestamp", "@timestamp", "ts", "asctime", "date", "__REALTIME_TIMESTAMP", "datetime")
_PODS = ("pod_name", "pod", "instance", "container_name", "CONTAINER_NAME")
_HOSTS = ("_HOSTNAME", "host", "hostname", "node_name", "nodename")


def _peel(text: str) -> Peeled | None:
    text = text.strip().rstrip(",")
    if not text.endswith("}"):
        return _cut(text)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _read(record) if isinstance(record, dict) else None


def _cut(text: str) -> Peeled | None:
    """A record whose end is missing: what there is of a message that stands first."""
    for name in ("log", "message", "msg", "event"):
        lead = f'{{"{name}":"'
        spaced = f'{{"{name}": "'
        for start in (lead, spaced):
            if text.startswith(start):
                rest = text[len(start) :]
                for end in (len(rest), rest.rfind("\\")):
                    try:
                        return Peeled(json.loads(f'"{rest[:end]}"'))
                    except ValueError:
                        continue
    return None


def _read(record: dict[str, Any], depth: int = 0) -> Peeled | None:
    message: Any = next((record[name] for name in _MESSAGES if isinstance(record.get(name), str | list)), None)
    if isinstance(message, list):  # journald exports a message with control codes as its bytes
        try:
            message = bytes(message).decode("utf-8", "replace")
        except (ValueError, TypeError):
            message = None
    inner = None
    if message is None and depth < 2:
        nested = (record[name] for name in _NESTS if isinstance(record.get(name), dict))
        inner = next((found for each in nested if (found := _read(each, depth + 1))), None)
        if inner is None:
            return None
        message = inner.text
    if not isinstance(message, str):
        return None
    clock = next((value for name in _CLOCKS if (value := _clock(record.get(name)))), None)
    node, host = _node(record)
    # json-file and fluentd keep the line's own end; a record without it goes on in the next one.
    ended = message.endswith("\n")
    cut = "log" in record and not ended and len(message) >= 16_000
    return Peeled(
        message[:-1] if ended else message, clock or (inner.clock if inner else None), node, host=host, cut=cut
    )


def _clock(value: Any) -> str | None:
    if isinstance(value, str):
        if len(value) >= 19 and value[4:5] == "-" and value[10:11] in "T " and value[13:14] == ":":
            return (value[:10] + "T" + value[11:]).split("Z")[0].split("+")[0].replace(",", ".")
        if value.isdigit() and len(value) == 16:  # journald: microseconds
            value = int(value) / 1e6
        else:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        from datetime import UTC, datetime

        seconds = value / 1000 if value > 1e11 else value
        if 1e9 < seconds < 1e10:
            return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return None


def _node(record: dict[str, Any]) -> tuple[str, bool]:
    places = [
        record,
        *(record[k] for k in ("kubernetes", "labels", "stream", "resource") if isinstance(record.get(k), dict)),
    ]
    for names, host in ((_PODS, False), (_HOSTS, True)):
        for place in places:
            for name in names:
                if isinstance(value := place.get(name), str) and value:
                    return value, host
    return "", False


def _named(text: str) -> str:
    """Which collector a record is of, by the names in it."""
    if '"stream"' in text and '"log"' in text:
        return "docker"
    if '"__REALTIME_TIMESTAMP"' in text or '"MESSAGE"' in text:
        return "journald"
    if '"ingestionTime"' in text or '"@message"' in text or '"logStream' in text:
        return "cloudwatch"
    if '"labels"' in text or '"line"' in text:
        return "loki"
    return "json"


class Records:
    """The JSON carrier; its name depends on the record."""

    name_of = staticmethod(_named)


JSON = Carrier("json", frozenset("{"), _peel)
