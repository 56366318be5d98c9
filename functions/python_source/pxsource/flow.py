"""The declarative subset of Python in which an SDK-linked Flow is written. FLOW.md is its grammar.

Nothing is evaluated. The tree says what each statement means; the text between the parts of the tree, which may
hold nothing but space, comments and the separators that belong there, says where each part stands. So every byte
of a source is accounted for, and an edit knows what it replaces.
"""

import ast
import functools
import re

from .ports import port

MAX_DEPTH = 56  # of a value: in a document it may nest 64 deep, with what is around it


def flow(source, tree, findings):
    """What the source says of its Flow. It means something only where nothing was found."""
    return Reader(source, tree, findings).read()


@functools.cache
def _gap(expected, optional):
    """Matches the text between two places that holds these separators."""
    space = rb"(?:[ \t\r\n]++|#[^\n]*+)*+"
    each = [b"(" + re.escape(c.encode()) + b")" + space for c in expected + optional]
    return re.compile(space + b"".join(each[: len(expected)]) + b"".join(b"(?:" + e + b")?" for e in each[len(expected) :]))


class Refused(Exception):
    """One statement is not of the subset; the ones after it are read all the same."""


class Reader:
    def __init__(self, source, tree, findings):
        self.source, self.tree, self.findings = source, tree, findings
        self.lines = source.lines
        self.flow_key, self.label = None, {}
        self.inputs, self.results, self.nodes = {}, {}, {}
        self.names = {}  # what each name stands for: ("px" | "flow" | "input" | "node", key)
        self.statements = []

    def start(self, node):
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node):
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def range(self, node):
        return [self.start(node), self.end(node)]

    def refuse(self, node, reason, **params):
        self.findings.node(reason, node, **params)
        raise Refused

    # The text between the parts of the tree.

    def gap(self, node, start, end, expected, optional=""):
        """The separators between two places: expected, with what is optional after it.

        Returns where each one stands, None for an optional one that is not there.
        """
        if start == end and not expected:
            return [None] * len(optional)
        found = _gap(expected, optional).fullmatch(self.source.data, start, end)
        if found:
            return [at if at >= 0 else None for at, _ in found.regs[1:]]
        # Something is wrong: where, and what.
        found = []
        wanted = expected + optional
        at = start
        while at < end:
            c = self.source.data[at : at + 1]
            if c in b" \t\r\n":
                at += 1
            elif c == b"#":
                stop = self.source.data.find(b"\n", at)
                at = end if stop < 0 else min(stop, end)
            elif len(found) < len(wanted) and c == wanted[len(found)].encode():
                found.append(at)
                at += 1
            else:
                reason = {b"(": "parentheses", b")": "parentheses", b"\\": "line_continuation"}.get(c, "layout")
                self.findings.add(reason, (at, at + 1))
                raise Refused
        if len(found) < len(expected):
            self.refuse(node, "layout")
        return found + [None] * (len(wanted) - len(found))

    def group(self, node, opening, items, closing):
        """Where the items of a call or of a dict stand: [(name, whole, value)], whole
        and value being ranges."""
        out = []
        at = opening
        for i, (name, whole, value) in enumerate(items):
            if i > 0:
                (comma,) = self.gap(node, at, whole[0], ",")
                out[-1]["comma"] = comma
            else:
                self.gap(node, at, whole[0], "")
            out.append({"name": name, "range": whole, "value": value, "comma": -1})
            at = whole[1]
        if out:
            (comma,) = self.gap(node, at, closing, "", ",")
            if comma is not None:
                out[-1]["comma"] = comma
        else:
            self.gap(node, at, closing, "")
        return {"open": opening, "close": closing, "items": out}

    def written(self, node, at, name):
        """Names stand as they mean: Python itself folds letters that look alike."""
        if not self.source.data.startswith(name.encode(), at):
            self.refuse(node, "layout")

    # Calls.

    def method(self, call, of=None):
        """The name X of px.X(…) or NAME.X(…), and where its arguments begin."""
        f = call.func
        if not isinstance(f, ast.Attribute) or not isinstance(f.value, ast.Name):
            self.refuse(call, "call_not_allowed")
        self.written(call, self.start(call), f"{f.value.id}.{f.attr}")
        (paren,) = self.gap(call, self.end(f), self.first(call), "(")
        return f.value.id, f.attr, paren + 1

    def first(self, call):
        parts = [*call.args, *call.keywords]
        if parts:
            return min(self.start(p) for p in parts)
        return self.end(call) - 1

    def arguments(self, call, positional, keywords=()):
        """The arguments of a call by name, and the group of them.

        positional names those that stand first, in order, the ones in [] may be left
        out; keywords may follow in any order.
        """
        required = [p for p in positional if not p.startswith("[")]
        names = [p.strip("[]") for p in positional]
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            self.refuse(call, "unpacking")
        if not len(required) <= len(call.args) <= len(names):
            self.refuse(call, "arguments", least=len(required), most=len(names))
        out, items = {}, []
        for name, a in zip(names, call.args):
            out[name] = a
            items.append(("", self.range(a), self.range(a)))
        for k in call.keywords:
            if k.arg not in keywords:
                self.refuse(k, "unknown_keyword", keyword=k.arg)
            out[k.arg] = k.value
            self.written(k, self.start(k), k.arg)
            self.gap(k, self.start(k) + len(k.arg.encode()), self.start(k.value), "=")
            items.append((k.arg, self.range(k), self.range(k.value)))
        _, _, opening = self.method(call)
        return out, self.group(call, opening, items, self.end(call) - 1)

    # Values.

    def value(self, node, depth=1):
        """The JSON value of a literal."""
        if depth > MAX_DEPTH:
            self.refuse(node, "too_deep", limit=MAX_DEPTH)
        if isinstance(node, ast.Constant):
            v = node.value
            if v is None or isinstance(v, bool):
                return v
            if isinstance(v, str):
                return self.string(node)
            if isinstance(v, (int, float)):
                return self.number(node, v)
            self.refuse(node, "value_not_allowed", found=type(v).__name__)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            v = node.operand.value
            if isinstance(v, (int, float)) and not isinstance(v, bool):
                self.gap(node, self.start(node) + 1, self.start(node.operand), "")
                return -self.number(node, v)
        if isinstance(node, ast.List):
            self.group(node, self.start(node) + 1, [("", self.range(e), self.range(e)) for e in node.elts], self.end(node) - 1)
            return [self.value(e, depth + 1) for e in node.elts]
        if isinstance(node, ast.Dict):
            return self.dict(node, depth)[0]
        self.refuse(node, "value_not_allowed", found=type(node).__name__)

    def number(self, node, v):
        try:
            f = float(v)
        except OverflowError:
            self.refuse(node, "number_range")
        if f - f != 0:
            self.refuse(node, "number_range")
        if isinstance(v, int) and int(f) != v:
            # A JSON number is binary64: another one would be stored than is written.
            self.refuse(node, "number_not_exact")
        return v

    def string(self, node):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self.refuse(node, "string_expected", found=type(node).__name__)
        try:
            node.value.encode()
        except UnicodeEncodeError:
            self.refuse(node, "lone_surrogate")
        return node.value

    def dict(self, node, depth=1):
        """The JSON object of a dict, and where its entries stand."""
        if not isinstance(node, ast.Dict):
            self.refuse(node, "dict_expected", found=type(node).__name__)
        out, items = {}, []
        for key, value in zip(node.keys, node.values):
            if key is None:
                self.refuse(node, "unpacking")
            name = self.string(key)
            if name in out:
                self.refuse(key, "duplicate_key")
            self.gap(node, self.end(key), self.start(value), ":")
            out[name] = self.value(value, depth + 1)
            items.append((name, [self.start(key), self.end(value)], self.range(value)))
        return out, self.group(node, self.start(node) + 1, items, self.end(node) - 1)

    # Statements.

    def read(self):
        body = self.tree.body
        at = 0
        for i, node in enumerate(body):
            try:
                # A statement has its lines for itself: no semicolon stands between.
                self.gap(node, at, self.start(node), "")
                at = self.end(node)
                self.statement(i, node)
            except Refused:
                at = self.end(node)
                self.give_up(node)
        try:
            if body:
                self.gap(body[-1], at, len(self.source.data), "")
        except Refused:
            pass
        if self.flow_key is None and not self.findings:
            self.findings.add("flow_missing", (len(self.source.data), len(self.source.data)))
        if self.findings:
            return None
        document = {"flowKey": self.flow_key, "inputs": self.inputs, "results": self.results, "nodes": self.nodes}
        if self.label:
            document["label"] = self.label
        document["statements"] = self.statements
        return document

    def give_up(self, node):
        """What was refused defines its names all the same: whoever uses them is not to blame."""
        if isinstance(node, ast.Import):
            self.names.setdefault("px", ("px", ""))
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                self.names.setdefault(target.id, ("refused", ""))

    def meaning(self, name):
        """What a name stands for. Of one whose statement was refused there is no more to say."""
        kind, key = self.names.get(name, ("", ""))
        if kind == "refused":
            raise Refused
        return kind, key

    def statement(self, i, node):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) and i == 0:
            self.add("text", node)
            return
        if isinstance(node, ast.Import):
            self.import_px(node)
            return
        name, call = None, None
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, call = node.targets[0], node.value
            self.written(name, self.start(name), name.id)
            self.gap(node, self.end(name), self.start(call), "=")
        elif isinstance(node, ast.Expr):
            call = node.value
        if not isinstance(call, ast.Call):
            self.refuse(node, "statement_not_allowed", found=type(node).__name__)
        owner, method, _ = self.method(call)
        if owner == "px" and method == "flow":
            self.define_flow(node, name, call)
            return
        if self.meaning(owner)[0] != "flow":
            self.refuse(call, "call_not_allowed")
        if method not in ("input", "node", "connect", "result"):
            self.refuse(call, "call_not_allowed")
        if (name is not None) != (method in ("input", "node")):
            # What others refer to has a name, and what nobody does has none.
            self.refuse(node, "name_expected" if name is None else "name_not_allowed")
        getattr(self, "read_" + method)(node, name, call)

    def add(self, kind, node, **members):
        self.statements.append({"kind": kind, "range": self.range(node), **members})

    def define(self, name, meaning):
        if name.id in self.names:
            self.refuse(name, "name_taken", name=name.id)
        if "px" not in self.names:
            self.refuse(name, "import_missing")
        self.names[name.id] = meaning

    def import_px(self, node):
        if len(node.names) != 1 or node.names[0].name != "px" or node.names[0].asname:
            self.refuse(node, "import_not_allowed")
        if self.source.data[self.start(node) : self.end(node)] != b"import px":
            self.refuse(node, "layout")
        if "px" in self.names:
            self.refuse(node, "name_taken", name="px")
        self.names["px"] = ("px", "")
        self.add("import", node)

    def define_flow(self, node, name, call):
        if name is None:
            self.refuse(node, "name_expected")
        if any(kind == "flow" for kind, _ in self.names.values()):
            self.refuse(node, "flow_twice")
        self.define(name, ("flow", ""))
        args, group = self.arguments(call, ["key"], ["label"])
        self.flow_key = self.string(args["key"])
        if "label" in args:
            self.label = self.label_of(args["label"])
        self.add("flow", node, name=name.id, call=group)

    def label_of(self, node):
        label, _ = self.dict(node)
        for text in label.values():
            if not isinstance(text, str):
                self.refuse(node, "string_expected")
        return label

    def read_input(self, node, name, call):
        args, group = self.arguments(call, ["key", "contract"])
        key = self.string(args["key"])
        if key in self.inputs:
            self.refuse(args["key"], "duplicate_definition", key=key)
        self.define(name, ("input", key))
        self.inputs[key] = self.port(args["contract"])
        self.add("input", node, name=name.id, portKey=key, call=group)

    def port(self, node):
        contract = port(node, self.findings)
        if contract is None:
            raise Refused
        return contract

    def read_node(self, node, name, call):
        args, group = self.arguments(call, ["key", "target"], ["settings", "label"])
        key = self.string(args["key"])
        if key in self.nodes:
            self.refuse(args["key"], "duplicate_definition", key=key)
        self.define(name, ("node", key))
        made = self.nodes[key] = {}
        made["target"] = self.target(args["target"])
        members = {}
        if "settings" in args:
            settings, members["settings"] = self.dict(args["settings"])
            if settings:
                made["settings"] = settings
        if "label" in args:
            label = self.label_of(args["label"])
            if label:
                made["label"] = label
        self.add("node", node, name=name.id, nodeKey=key, call=group, **members)

    def target(self, call):
        if not isinstance(call, ast.Call):
            self.refuse(call, "target_expected")
        owner, kind, _ = self.method(call)
        if owner == "px" and kind == "component":
            args, _ = self.arguments(call, ["component_key", "version"])
            return {"kind": "component", "componentKey": self.string(args["component_key"]), "version": self.version(args["version"])}
        if owner == "px" and kind == "function":
            args, _ = self.arguments(call, ["function_key", "version", "digest"])
            return {
                "kind": "function",
                "functionKey": self.string(args["function_key"]),
                "version": self.version(args["version"]),
                "digest": self.string(args["digest"]),
            }
        self.refuse(call, "target_expected")

    def version(self, node):
        v = self.value(node)
        if isinstance(v, bool) or not isinstance(v, int):
            self.refuse(node, "integer_expected")
        return v

    def reference(self, node):
        """NAME.method("port") of a Node: its key, the method and the port."""
        owner, method, _ = self.method(node)
        kind, key = self.meaning(owner)
        if kind != "node":
            self.refuse(node, "name_unknown", name=owner)
        args, _ = self.arguments(node, ["port"])
        return key, method, self.string(args["port"])

    def read_connect(self, node, name, call):
        args, group = self.arguments(call, ["target", "source"])
        at = args["target"]
        if not isinstance(at, ast.Call):
            self.refuse(at, "node_input_expected")
        key, method, port = self.reference(at)
        if method != "input":
            self.refuse(at, "node_input_expected")
        bindings = self.nodes[key].setdefault("inputBindings", {})
        if port in bindings:
            self.refuse(at, "duplicate_definition", key=port)
        bindings[port] = self.binding(args["source"])
        self.add("connect", node, nodeKey=key, portKey=port, call=group)

    def read_result(self, node, name, call):
        args, group = self.arguments(call, ["key", "contract", "[source]"])
        key = self.string(args["key"])
        if key in self.results:
            self.refuse(args["key"], "duplicate_definition", key=key)
        result = dict(self.port(args["contract"]))
        if "source" in args:
            result["binding"] = self.binding(args["source"])
        self.results[key] = result
        self.add("result", node, portKey=key, call=group)

    def binding(self, node):
        if isinstance(node, ast.Name):
            kind, key = self.meaning(node.id)
            if kind != "input":
                self.refuse(node, "name_unknown", name=node.id)
            return {"kind": "flowInput", "portKey": key}
        if not isinstance(node, ast.Call):
            self.refuse(node, "source_expected", found=type(node).__name__)
        owner, method, _ = self.method(node)
        if owner == "px" and method == "literal":
            args, _ = self.arguments(node, ["value"])
            return {"kind": "literal", "value": self.value(args["value"])}
        key, method, port = self.reference(node)
        if method != "output":
            self.refuse(node, "source_expected")
        return {"kind": "nodeResult", "nodeKey": key, "portKey": port}
