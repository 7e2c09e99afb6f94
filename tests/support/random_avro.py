"""Makes random Avro schemas, many of them invalid, and changes of them."""

from __future__ import annotations

import copy
import random
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMES = ("A", "B", "C", "record", "a.A", "b.A", "x.y.C", "enum", "int", "_z")
ODD_NAMES = ("é", "9a", "a..b", ".Q", "", "a-b", "x.é.C", "null", "a.int")
FIELDS = ("a", "b", "c", "key", "value", "metadata")
LOGICAL = ("date", "decimal", "uuid", "duration", "timestamp-millis", "big-decimal", "no-such", 5)
ALIASES = ("A", "B", "b.A", "a.B", ".x", "record", "a.record", "C")
NUMBERS = (0, 1, -5, 1 << 31, 1 << 40, -(1 << 63), 1.0, 0.1, 1e30, 1.5e-7, 1e7, 9999999.0, 0.001, -0.0)
TEXTS = ("", "x", 'é\x01"\\/', "\x7f\u2028", "\xff\u0100", "A")
DEFAULTS: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (0, (1 << 31) - 1),
    "long": (3, 1 << 40),
    "float": (1, 0.1, "NaN"),
    "double": (1, 2.5, "1.5"),
    "bytes": ("\xff",),
    "string": ("s",),
}


class RandomAvro:
    """One stream of random schemas.

    Args:
        rng: where they come from.
        odd: how often a name breaks the rules.
    """

    def __init__(self, rng: random.Random, odd: float = 0.02) -> None:
        self.rng = rng
        self.odd = odd

    def happens(self, share: float) -> bool:
        return self.rng.random() < share

    def json(self, depth: int = 0) -> Any:
        """A JSON value of any kind."""
        kind = self.rng.randrange(6)
        if kind < 3 or depth > 2:
            return self.rng.choice(((*NUMBERS,), TEXTS, (None, True, False))[min(kind, 2)])
        if kind == 3:
            return [self.json(depth + 1) for _ in range(self.rng.randrange(3))]
        return {self.rng.choice("zyxab"): self.json(depth + 1) for _ in range(self.rng.randrange(3))}

    def name(self) -> str:
        return self.rng.choice(ODD_NAMES if self.happens(self.odd) else NAMES)

    def with_properties(self, node: dict[str, Any]) -> dict[str, Any]:
        if self.happens(0.3):
            node[self.rng.choice(("p", "logicalType", "precision", "scale", "order", "java-class"))] = (
                self.json()
            )
        if self.happens(0.15):
            node["logicalType"] = self.rng.choice(LOGICAL)
        if self.happens(0.2):
            members = list(node.items())
            self.rng.shuffle(members)
            node = dict(members)
        return node

    def named(self, node: dict[str, Any]) -> dict[str, Any]:
        node["name"] = self.name()
        if self.happens(0.3):
            node["namespace"] = self.rng.choice(("a", "b", "x.y", ""))
        if self.happens(0.2):
            node["doc"] = self.rng.choice(("", "two\nlines", 'q"'))
        if self.happens(0.2):
            node["aliases"] = [self.rng.choice(ALIASES) for _ in range(self.rng.randrange(4))]
        return self.with_properties(node)

    def type(self, depth: int = 0) -> Any:
        kinds = ("record", "enum", "fixed", "array", "map", "union", "property", "name", *["primitive"] * 4)
        kind = "primitive" if depth > 4 else self.rng.choice(kinds)
        match kind:
            case "record":
                return self.record(depth)
            case "enum":
                symbols = self.rng.sample("ABCD", self.rng.randrange(1, 4))
                default = {"default": self.rng.choice("ABCD")} if self.happens(0.3) else {}
                return self.named({"type": "enum", "symbols": symbols, **default})
            case "fixed":
                return self.named({"type": "fixed", "size": self.rng.choice((2, 12, 16, 0))})
            case "array":
                return self.with_properties({"type": "array", "items": self.type(depth + 1)})
            case "map":
                return self.with_properties({"type": "map", "values": self.type(depth + 1)})
            case "union":
                return [self.type(depth + 1) for _ in range(self.rng.randrange(4))]
            case "property":
                return self.with_properties({"type": self.rng.choice(PRIMITIVES)})
            case "name":
                return self.name()
        return self.rng.choice(PRIMITIVES)

    def record(self, depth: int = 0) -> dict[str, Any]:
        fields = [self.field(name, depth) for name in self.rng.sample(FIELDS, self.rng.randrange(4))]
        return self.named({"type": self.rng.choice(("record",) * 9 + ("error",)), "fields": fields})

    def field(self, name: str, depth: int) -> dict[str, Any]:
        node: dict[str, Any] = {"name": name, "type": self.type(depth + 1)}
        # Java checks the default of a name that is defined later against a record without fields.
        if self.happens(0.4) and (not isinstance(node["type"], str) or node["type"] in PRIMITIVES):
            node["default"] = self.json() if self.happens(0.15) else self.default(node["type"])
        if self.happens(0.15):
            node["order"] = self.rng.choice(("ignore", "descending", "ASCENDING"))
        if self.happens(0.15):
            node["aliases"] = self.rng.sample(("b", "c", "z", "é"), self.rng.randrange(3))
        if self.happens(0.15):
            node["doc"] = self.rng.choice(("", "x"))
        if self.happens(0.15):
            node[self.rng.choice(("p", "logicalType"))] = self.json()
        return node

    def default(self, of: Any) -> Any:
        """A value that mostly fits a type."""
        if isinstance(of, str):
            return self.rng.choice(DEFAULTS.get(of, ({},)))
        if isinstance(of, list):
            return self.default(self.rng.choice(of)) if of else None
        match of["type"]:
            case "array":
                return [self.default(of["items"])]
            case "map":
                return {"k2": self.default(of["values"]), "k1": self.default(of["values"])}
            case "record" | "error":
                return {
                    each["name"]: self.default(each["type"]) for each in of["fields"] if self.happens(0.9)
                }
            case "enum" | "fixed":
                return "A"
        return self.default(of["type"])

    def changed(self, schema: Any) -> Any:
        """A copy that differs in a few places."""
        changed = copy.deepcopy(schema)
        self._change(changed)
        return changed

    def _change(self, node: Any) -> None:
        if isinstance(node, list):
            if self.happens(0.1):
                node.append(self.rng.choice(PRIMITIVES))
            for position, each in enumerate(node):
                if self.happens(0.1):
                    node[position] = self.rng.choice(PRIMITIVES)
                else:
                    self._change(each)
        elif isinstance(node, dict):
            self._change_object(node)

    def _change_object(self, node: dict[str, Any]) -> None:
        if "fields" in node:
            fields = node["fields"]
            if fields and self.happens(0.15):
                fields.pop(self.rng.randrange(len(fields)))
            if self.happens(0.2):
                fields.append({"name": "n", "type": "int"} | ({"default": 1} if self.happens(0.5) else {}))
            self._change(fields)
        if "symbols" in node and self.happens(0.3):
            node["symbols"].append("Z")
        if "size" in node and self.happens(0.2):
            node["size"] = 3
        for of in ("items", "values", "type"):
            if of in node and not isinstance(node[of], str) | ("fields" in node):
                if self.happens(0.15):
                    node[of] = self.type(3)
                else:
                    self._change(node[of])
