"""The alarms of watches as an Atom feed (RFC 4287)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from xml.etree import ElementTree

from pgstrata.errors import harmless
from pgstrata.watch.history import Alarm
from pgstrata.watch.known import Known
from pgstrata.watch.site.sheets import WatchSite
from pgstrata.watch.text import listed_alarms, others, title

NAME = "feed.xml"
MOST_ENTRIES = 100
ATOM = "http://www.w3.org/2005/Atom"
NEVER = "1970-01-01T00:00:00+00:00"
"""Date of a feed without a measurement: an Atom feed has one."""


def atom(sites: Sequence[WatchSite]) -> bytes:
    """Returns the feed: open and acknowledged alarms, the latest first."""
    ElementTree.register_namespace("", ATOM)
    names = ", ".join(site.known.watch.name for site in sites)
    dates = [values.at for site in sites for values in site.known.values.values()]
    feed = ElementTree.Element(f"{{{ATOM}}}feed")
    _text(feed, "id", _urn(*(_source(site.known) for site in sites)))
    _text(feed, "title", f"Alarms of {names}")
    alarms = [(site, alarm) for site in sites for alarm in listed_alarms(site.known) if alarm.is_worse]
    alarms.sort(key=lambda pair: pair[1].at, reverse=True)
    _text(feed, "updated", max([*dates, *(alarm.ended for _, alarm in alarms)], default=NEVER))
    _text(ElementTree.SubElement(feed, f"{{{ATOM}}}author"), "name", "pgstrata")
    _link(feed, "self", NAME)
    _link(feed, "alternate", "index.html")
    for site, alarm in alarms[:MOST_ENTRIES]:
        _entry(feed, site, alarm)
    ElementTree.indent(feed)
    text: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _entry(feed: ElementTree.Element, site: WatchSite, alarm: Alarm) -> None:
    known = site.known
    entry = ElementTree.SubElement(feed, f"{{{ATOM}}}entry")
    _text(entry, "id", alarm_id(known, alarm))
    _text(entry, "title", title(known, alarm))
    _text(entry, "published", alarm.at or NEVER)
    _text(entry, "updated", alarm.ended or alarm.at or NEVER)
    path = site.alarm_path(alarm)
    _link(entry, "alternate", f"{path}.html" if path else "index.html")
    note = known.note_of(alarm)
    parts = [alarm.subject, alarm.answer, *alarm.why, *others(known, alarm)]
    parts.append(f"Acknowledged: {note}" if note else "")
    content = _text(entry, "content", "\n".join(filter(None, parts)))
    content.set("type", "text")


def alarm_id(known: Known, alarm: Alarm) -> str:
    """Returns what an alarm is known by for ever: it stays while its search narrows it down."""
    return _urn(_source(known), alarm.leading, alarm.at)


def _source(known: Known) -> str:
    return f"{known.watch.name} {known.line.stops[0].id}"


def _urn(*parts: str) -> str:
    text = "\0".join(part.encode("utf-8", "replace").decode() for part in parts)
    return uuid.uuid5(uuid.NAMESPACE_URL, f"pgstrata:alarms:{text}").urn


def _text(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, f"{{{ATOM}}}{name}")
    element.text = harmless(text)
    return element


def _link(parent: ElementTree.Element, rel: str, address: str) -> None:
    ElementTree.SubElement(parent, f"{{{ATOM}}}link", {"rel": rel, "href": address})


__all__ = ["NAME", "alarm_id", "atom"]
