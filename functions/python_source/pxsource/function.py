"""One Function: exactly one @px.function definition, beside imports and constants that are literals."""

import ast

from .lexical import Findings
from .literal import MAX_EXACT, KEY, NotLiteral, constant, integer, items, key, label, text
from .ports import arguments, is_px, ports, taken
from .rules import TooDeep, Walk, deep, imported

ARGUMENTS = ("key", "version", "description", "label", "inputs", "results", "capabilities")
REQUIRED = ("key", "version", "description", "inputs", "results")
MAX_DESCRIPTION = 2000
MAX_CAPABILITIES = 16


def function(source, tree, findings: Findings):
    """What the module says of its Function. It means something only where nothing was found.

    It raises TooDeep: a tree may be as deep as the parser makes it, and is looked at in one pass.
    """
    modules, names, definitions = {}, {}, []
    for i, node in enumerate(tree.body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name, root in imported(node, findings):
                _bind(names, name, node, findings)
                modules[name] = root
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            definitions.append(node)
            if any(deep(e) for e in (*node.decorator_list, node.args, node.returns) if e):
                raise TooDeep
            _bind(names, node.name, node, findings)
        elif not (i == 0 and _docstring(node)):
            _constant(node, names, findings)
    walk = Walk(source, findings, modules)
    walk.run([n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom)) and n not in definitions])
    found = [d for d in definitions if any(_mentions(e) for e in d.decorator_list)]
    for d in definitions:
        if d not in found:
            findings.node("definition_not_decorated", d)
    if not found:
        if not definitions:
            findings.add("definition_missing", (len(source.data), len(source.data)))
        return None
    for d in found[1:]:
        findings.node("definition_twice", d)
    return _definition(source, found[0], modules, walk, findings)


def _docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _bind(names, name, node, findings):
    if name in names:
        findings.node("name_twice", node, name=name)
    names[name] = node


def _constant(node, names, findings):
    target, value = None, None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.simple:
        target, value = node.target, node.value
        _annotation(node.annotation, findings)
    if not isinstance(target, ast.Name) or value is None:
        findings.node("statement_not_supported", node, node=type(node).__name__)
        return
    _bind(names, target.id, node, findings)
    try:
        constant(value)
    except NotLiteral as e:
        findings.node(e.reason, e.node, **e.params)


_annotations = (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Constant, ast.BinOp, ast.BitOr, ast.Load)


def _annotation(node, findings):
    """Annotations run when the definition does: names and what holds them, and no more."""
    if node is None:
        return
    for n in ast.walk(node):
        if not isinstance(n, _annotations):
            findings.node("annotation_computes", node)
            return


def _mentions(node):
    return any(is_px(n, "function") for n in ast.walk(node))


def _definition(source, node, modules, walk, findings):
    symbol = node.name
    if isinstance(node, ast.AsyncFunctionDef):
        findings.node("async_refused", node)
    if getattr(node, "type_params", None):
        findings.node("syntax_not_supported", node, node="type_params")
    for e in node.decorator_list:
        if not _mentions(e):
            findings.node("decorator_extra", e)
    decorators = [e for e in node.decorator_list if _mentions(e)]
    for e in decorators[1:]:
        findings.node("decorator_extra", e)
    call = decorators[0]
    start = source.data.rfind(b"@", 0, source.span(call)[0])
    if not (isinstance(call, ast.Call) and is_px(call.func, "function")) or source.data[start + 1 : source.span(call)[0]].strip(b" \t"):
        findings.node("decorator_form", call)
        given = {}
    else:
        given = arguments(call, ARGUMENTS, REQUIRED, findings)
    out = _contract(given, findings)
    parameters = _parameters(node, findings)
    if out["inputs"] is not None:
        for a in parameters:
            if a.arg not in out["inputs"]:
                findings.node("parameter_without_input", a, parameter=a.arg)
        have = {a.arg for a in parameters}
        for k in out["inputs"]:
            if k not in have:
                findings.node("input_without_parameter", node, key=k)
    walk.name(symbol, node)
    body = node.body
    walk.run(body, [a.arg for a in parameters], direct=True, depth=2)
    end = source.span(node)[1]
    places = {}
    for side in ("inputs", "results"):
        if isinstance(given.get(side), ast.Dict):
            for k, v in zip(given[side].keys, given[side].values):
                if k is not None and isinstance(k, ast.Constant):
                    places["/%s/%s" % (side, k.value)] = source.span(v)
    out.update(
        places=places,
        symbol=symbol,
        parameters=[a.arg for a in parameters],
        imports=sorted(set(modules.values())),
        definition=[start, end],
        decorator=[start, source.span(call)[1]],
        body=[source.span(body[0])[0], source.span(body[-1])[1]],
    )
    return out


def _contract(given, findings):
    def take(name, read, *more):
        return taken(findings, read, given[name], *more) if name in given else None

    out = {
        "functionKey": take("key", key),
        "version": take("version", integer, 1, MAX_EXACT),
        "description": take("description", text, 1, MAX_DESCRIPTION),
        "inputs": ports(given["inputs"], findings) if "inputs" in given else None,
        "results": ports(given["results"], findings) if "results" in given else None,
        "capabilities": take("capabilities", _capabilities) or [],
    }
    if "label" in given:
        out["label"] = take("label", label, findings)
    if out["results"] == {}:
        findings.node("results_empty", given["results"])
    if out["description"] is not None and not out["description"].strip():
        findings.node("text_length", given["description"], minimum=1, maximum=MAX_DESCRIPTION)
    return out


def _capabilities(node):
    out = []
    for e in items(node):
        name = text(e, 1, 64)
        if not all(KEY(p) for p in name.split(".")):
            raise NotLiteral(e, "key_form")
        if name in out:
            raise NotLiteral(e, "key_twice", key=name)
        out.append(name)
    if len(out) > MAX_CAPABILITIES:
        raise NotLiteral(node, "too_many_keys", limit=MAX_CAPABILITIES, observed=len(out))
    return out


def _parameters(node, findings):
    """The parameters, which are named as the inputs are. They have no other form and no defaults."""
    a = node.args
    for other in (*a.posonlyargs, *a.kwonlyargs, a.vararg, a.kwarg):
        if other is not None:
            findings.node("parameter_form", other)
    for default in (*a.defaults, *a.kw_defaults):
        if default is not None:
            findings.node("parameter_default", default)
    for p in (*a.posonlyargs, *a.args, *a.kwonlyargs):
        _annotation(p.annotation, findings)
        if p.arg.startswith("__") or p.arg == "px":
            findings.node("name_refused", p, name=p.arg)
    _annotation(node.returns, findings)
    return a.args
