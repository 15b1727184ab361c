"""What all messages between pgstrata and its driver are made of; `spec` and `events` are generated."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

Json = dict[str, Any]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the spec, which pgstrata writes. A traceback shows it without its secrets."""

    _secrets: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (
            f"{name}={'***' if value and name in self._secrets else repr(value)}" for name, value in values
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Read(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of an event, which pgstrata reads."""


class GivenSlices(msgspec.Struct, frozen=True):
    """Says that the driver is given its slices one by one, by the command `slice`: `slices` of the spec."""


def document(spec: msgspec.Struct) -> Json:
    """Returns the part of the JSON document that a typed part of the spec becomes."""
    part: Json = msgspec.json.decode(msgspec.json.encode(spec))
    return part
