"""The value of an expression that is a literal, found without evaluating anything."""

import ast
import math
import re

MAX_DEPTH = 16
MAX_EXACT = 2**53 - 1  # what binary64, and so JSON between programs, holds exactly
KEY = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch


class NotLiteral(Exception):
    """node is no literal of the kind that was asked for, for the reason that is named."""

    def __init__(self, node, reason="not_a_literal", **params):
        self.node, self.reason, self.params = node, reason, params


def number(node):
    """An int or float, with a sign or without. Booleans are none."""
    inner, sign = node, 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner, sign = node.operand, -1 if isinstance(node.op, ast.USub) else 1
    if not isinstance(inner, ast.Constant) or type(inner.value) not in (int, float):
        raise NotLiteral(node, "number_expected")
    value = sign * inner.value
    if type(value) is float and not math.isfinite(value) or type(value) is int and abs(value) > MAX_EXACT:
        raise NotLiteral(node, "number_out_of_range")
    return value


def integer(node, least, most):
    try:
        value = number(node)
    except NotLiteral as e:
        raise NotLiteral(node, "number_out_of_range" if e.reason == "number_out_of_range" else "integer_expected")
    if type(value) is not int:
        raise NotLiteral(node, "integer_expected")
    if not least <= value <= most:
        raise NotLiteral(node, "number_out_of_range", minimum=least, maximum=most)
    return value


def boolean(node):
    if not isinstance(node, ast.Constant) or type(node.value) is not bool:
        raise NotLiteral(node, "boolean_expected")
    return node.value


def text(node, least=0, most=65_536):
    """A string that is one literal, or several side by side."""
    if not isinstance(node, ast.Constant) or type(node.value) is not str:
        raise NotLiteral(node, "string_expected")
    value = node.value
    if not least <= len(value) <= most:
        raise NotLiteral(node, "text_length", minimum=least, maximum=most)
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise NotLiteral(node, "text_not_unicode")  # no UTF-8 can hold it
    return value


def key(node):
    value = text(node)
    if not KEY(value):
        raise NotLiteral(node, "key_form")
    return value


def items(node):
    """The nodes of a list, or of a tuple."""
    if not isinstance(node, (ast.List, ast.Tuple)):
        raise NotLiteral(node, "list_expected")
    for e in node.elts:
        if isinstance(e, ast.Starred):
            raise NotLiteral(e)
    return node.elts


def entries(node, findings, key=key):
    """The (key, key's node, value's node) of a dict whose keys are literals, each once."""
    if not isinstance(node, ast.Dict):
        raise NotLiteral(node, "dict_expected")
    out, seen = [], set()
    for k, v in zip(node.keys, node.values):
        if k is None:
            findings.node("not_a_literal", v)
            continue
        try:
            name = key(k)
        except NotLiteral as e:
            findings.node(e.reason, e.node, **e.params)
            continue
        if name in seen:
            findings.node("key_twice", k, key=name)
            continue
        seen.add(name)
        out.append((name, k, v))
    return out


def label(node, findings):
    """A text in several languages: {"en": "Girder", "ko": "..."}."""
    out = {}
    for language, _, v in entries(node, findings, key=lambda k: text(k, 1, 64)):
        out[language] = text(v, 0, 2000)
    return out


def plain(node, depth=0):
    """Any literal, as the JSON it stands for: numbers, texts, booleans, None, lists, dicts with text keys."""
    if depth > MAX_DEPTH:
        raise NotLiteral(node, "nesting_too_deep", limit=MAX_DEPTH)
    if isinstance(node, ast.Constant):
        if node.value is None or type(node.value) is bool:
            return node.value
        if type(node.value) is str:
            return text(node)
        return number(node)
    if isinstance(node, ast.UnaryOp):
        return number(node)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [plain(e, depth + 1) for e in items(node)]
    if isinstance(node, ast.Dict):
        out = {}
        for k, v in zip(node.keys, node.values):
            if k is None:
                raise NotLiteral(v)
            name = text(k)
            if name in out:
                raise NotLiteral(k, "key_twice")
            out[name] = plain(v, depth + 1)
        return out
    raise NotLiteral(node)


def constant(node, depth=0):
    """Refuses what a module constant may not be: anything but a literal of Python, sets, bytes and complex included."""
    if depth > MAX_DEPTH:
        raise NotLiteral(node, "nesting_too_deep", limit=MAX_DEPTH)
    if isinstance(node, ast.Constant):
        if node.value is Ellipsis:
            raise NotLiteral(node)
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        if isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float, complex):
            return
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for e in node.elts:
            constant(e, depth + 1)
        return
    elif isinstance(node, ast.Dict):
        for k, v in zip(node.keys, node.values):
            if k is None:
                raise NotLiteral(v)
            constant(k, depth + 1)
            constant(v, depth + 1)
        return
    raise NotLiteral(node)
