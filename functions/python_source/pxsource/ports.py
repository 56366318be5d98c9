"""px.number(unit="m", minimum=0): the calls that say what a port takes, as the contract's JSON.

One spelling: keyword arguments alone, in snake_case, by the names of the contract. Bounds stand beside the
rest (minimum=0), and become "constraints". A default is the plain value in the declared unit, as a Function
would be given it; it becomes a typed value. px.literal({"value": 3, "unit": "ft"}) is a typed value as it stands.
What a unit or bound means is judged where the contract is used.
"""

import ast

from .literal import MAX_EXACT, NotLiteral, boolean, entries, integer, items, number, plain, text

BOUNDS = {
    "minimum": number,
    "exclusive_minimum": number,
    "maximum": number,
    "exclusive_maximum": number,
}
LENGTHS = {
    "min_length": lambda n: integer(n, 0, MAX_EXACT),
    "max_length": lambda n: integer(n, 0, MAX_EXACT),
    "pattern": lambda n: text(n, 0, 512),
}
COUNTS = {
    "min_items": lambda n: integer(n, 0, MAX_EXACT),
    "max_items": lambda n: integer(n, 0, MAX_EXACT),
}


def shape(node):
    if isinstance(node, ast.Constant) and node.value == "scalar":
        return "scalar"
    out = []
    for e in items(node):
        out.append(None if isinstance(e, ast.Constant) and e.value is None else integer(e, 1, 100_000))
    if not 1 <= len(out) <= 4:
        raise NotLiteral(node, "shape_form")
    return out


def values(node):
    return [text(e, 1, 256) for e in items(node)]


def _unit(node):
    return text(node, 1, 200)


def _kind(node):
    return text(node, 1, 64)


def _media(node):
    return text(node, 1, 200)


# By type: arguments that are literals, and those that it must have. "of", "fields" and "columns" hold further calls.
TYPES = {
    "number": ({"unit": _unit, "shape": shape, "quantity_kind": _kind, **BOUNDS}, ("unit",)),
    "integer": ({"shape": shape, **BOUNDS}, ()),
    "boolean": ({"shape": shape}, ()),
    "string": ({"shape": shape, **LENGTHS}, ()),
    "enum": ({"values": values, "shape": shape}, ("values",)),
    "record": ({"fields": None}, ("fields",)),
    "list": ({"of": None, **COUNTS}, ("of",)),
    "table": ({"columns": None, **COUNTS}, ("columns",)),
    "file": ({"media_type": _media}, ()),
}
SCALARS = ("number", "integer", "boolean", "string", "enum")
MAX_DEPTH = 8
MAX_MEMBERS = 256


def is_px(node, name=None):
    """Whether node is px.NAME; of any name if none is given."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "px"
        and name in (None, node.attr)
    )


def arguments(call, allowed, required, findings):
    """The keyword arguments of a call by name. Others, and missing ones, are findings."""
    out = {}
    for a in call.args:
        findings.node("positional_argument", a)
    for k in call.keywords:
        if k.arg is None:
            findings.node("argument_unpacked", k.value)
        elif k.arg not in allowed:
            findings.node("argument_unknown", k, argument=k.arg)
        elif k.arg not in out:  # one that is given twice, the parser refuses
            out[k.arg] = k.value
    for name in required:
        if name not in out and not any(k.arg == name for k in call.keywords):
            findings.node("argument_missing", call.func, argument=name)
    return out


def taken(findings, read, node, *more):
    """What read makes of the node, or None with a finding."""
    try:
        return read(node, *more)
    except NotLiteral as e:
        findings.node(e.reason, e.node, **e.params)
        return None


def port(node, findings, depth=1, column=False):
    """The contract that a px.* call says, or None with findings."""
    if not (isinstance(node, ast.Call) and is_px(node.func)):
        findings.node("type_expected", node)
        return None
    kind = node.func.attr
    if kind not in TYPES or column and kind not in SCALARS:
        findings.node("type_unknown", node.func, type=kind)
        return None
    if depth > MAX_DEPTH:
        findings.node("nesting_too_deep", node, limit=MAX_DEPTH)
        return None
    literals, required = TYPES[kind]
    allowed = {"nullable": boolean, **literals}
    if column:
        allowed.pop("shape", None)
    elif kind != "file":
        allowed["default"] = None
    before = len(findings.list)
    given = arguments(node, allowed, required, findings)
    out, constraints = {"type": kind}, {}
    for name, value in given.items():
        if allowed[name] is None:
            continue
        v = taken(findings, allowed[name], value)
        if name in BOUNDS or name in LENGTHS:
            constraints[camel(name)] = v
        else:
            out[camel(name)] = v
    if constraints:
        out["constraints"] = constraints
    if "of" in given:
        out["of"] = port(given["of"], findings, depth + 1)
    if "fields" in given:
        out["fields"] = ports(given["fields"], findings, depth + 1)
    if "columns" in given:
        out["columns"] = [
            {"columnKey": k, **(c or {})} for k, c in (ports(given["columns"], findings, depth + 1, True) or {}).items()
        ]
    if len(findings.list) == before and "default" in given:
        node = given["default"]
        if isinstance(node, ast.Call) and is_px(node.func, "literal") and len(node.args) == 1 and not node.keywords:
            out["default"] = taken(findings, plain, node.args[0])
        else:
            value = taken(findings, plain, node)
            if len(findings.list) == before:
                try:
                    out["default"] = typed(out, value)
                except ValueError:
                    findings.node("default_form", node, type=kind)
    return out if len(findings.list) == before else None


def ports(node, findings, depth=1, column=False):
    """The contracts of {"key": px.TYPE(...)}, in order; None where node is no such dict."""
    found = taken(findings, entries, node, findings)
    if found is None:
        return None
    if len(found) > MAX_MEMBERS:
        findings.node("too_many_keys", node, limit=MAX_MEMBERS, observed=len(found))
        return None
    return {k: port(v, findings, depth, column) for k, _, v in found}


def camel(name):
    head, *rest = name.split("_")
    return head + "".join(w.capitalize() for w in rest)


def typed(contract, value):
    """The typed value of a plain one. ValueError: its form is not the contract's; its content is judged elsewhere."""
    kind = contract["type"]
    if value is None:
        return {"value": None}
    if kind == "record":
        if not isinstance(value, dict) or value.keys() != contract["fields"].keys():
            raise ValueError
        return {"value": {k: typed(contract["fields"][k], v) for k, v in value.items()}}
    if kind == "list":
        if not isinstance(value, list):
            raise ValueError
        of = contract["of"]
        if of["type"] not in SCALARS:
            return {"value": [typed(of, v) for v in value]}
        return _united(of, value)
    if kind == "table":
        columns = contract["columns"]
        keys = [c["columnKey"] for c in columns]
        if not isinstance(value, list) or any(not isinstance(r, dict) or sorted(r) != sorted(keys) for r in value):
            raise ValueError
        head = [{k: c[k] for k in ("columnKey", "type", "unit") if k in c} for c in columns]
        return {"columns": head, "rows": [[r[k] for k in keys] for r in value]}
    if isinstance(value, dict) or isinstance(value, list) and contract.get("shape", "scalar") == "scalar":
        raise ValueError
    return _united(contract, value)


def _united(contract, value):
    return {"value": value, "unit": contract["unit"]} if "unit" in contract else {"value": value}
