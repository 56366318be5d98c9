"""One request, to its reply. README.md holds both."""

import ast
import sys
import warnings

from . import flow, function, lexical, rules
from .lexical import Findings, Source

PYTHON = "%d.%d" % sys.version_info[:2]
GRAMMAR = (3, 11)  # the oldest that is supported: what only newer ones read is refused on all
MAX_ITEMS = 64
KINDS = {"function": function.function, "flow": flow.flow}


class Malformed(Exception):
    """The request is none. Its text names members and never their content."""


def items(request):
    """The requests for one source each, checked, and whether there was a list of them."""
    if not isinstance(request, dict):
        raise Malformed("a request is an object")
    if request.get("v") != 1 or isinstance(request.get("v"), bool):
        raise Malformed("the version v of a request is 1")
    several = "items" in request
    allowed = {"v", "python", "items"} if several else {"v", "python", "kind", "source"}
    if not request.keys() <= allowed:
        raise Malformed("a request has the members " + ", ".join(sorted(allowed)))
    minor = request.get("python", "")
    if not isinstance(minor, str):
        raise Malformed("python is a text")
    listed = request["items"] if several else [{k: v for k, v in request.items() if k in ("kind", "source")}]
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_ITEMS:
        raise Malformed("items are 1 to %d" % MAX_ITEMS)
    for i in listed:
        if not isinstance(i, dict) or i.keys() - {"python"} != {"kind", "source"} or not all(isinstance(v, str) for v in i.values()):
            raise Malformed("an item has kind, source and perhaps python, all texts")
        if i["kind"] not in KINDS:
            raise Malformed("kind is function or flow")
    return [{"python": minor, **i} for i in listed], several


def refused(reason, code=lexical.INVALID, **params):
    """The answer of one item of which no more can be said."""
    findings = Findings()
    findings.add(reason, code=code, **params)
    return {"findings": findings.list, "function": None, "flow": None}


def read(item):
    """The findings of one source, or what it says. It raises RecursionError and MemoryError as they come."""
    if item["python"] not in ("", PYTHON):
        return refused("python_minor", code="PX_SANDBOX_UNAVAILABLE", pinned=item["python"], running=PYTHON)
    try:
        source = Source(item["source"])
    except UnicodeEncodeError:
        return refused("not_unicode")
    findings = Findings(source)
    out = None
    if lexical.check_text(source, findings) and lexical.check_tokens(source, findings):
        tree = _parse(source, findings)
        if tree is not None:
            out = _said(item["kind"], source, tree, findings)
    if findings:
        out = None
    return {
        "findings": findings.sorted(),
        "function": out if item["kind"] == "function" else None,
        "flow": out if item["kind"] == "flow" else None,
    }


def _parse(source, findings):
    try:
        tree = ast.parse(source.text, "<source>", feature_version=GRAMMAR)
    except SyntaxError as e:
        _syntax(e, source, findings)
        return None
    except (RecursionError, MemoryError):
        findings.add("nesting_too_deep", limit=rules.MAX_DEPTH)
        return None
    except ValueError:
        findings.add("syntax")
        return None
    return tree


def _said(kind, source, tree, findings):
    before = len(findings.list)
    try:
        if kind == "flow" and rules.deep(tree):
            raise rules.TooDeep
        out = KINDS[kind](source, tree, findings)
    except rules.TooDeep:
        # As if the parser had given up, which a newer or older one may do here.
        del findings.list[before:]
        findings.full = False
        findings.add("nesting_too_deep", limit=rules.MAX_DEPTH)
        return None
    if not findings:
        _compile(tree, source, findings)
    return out


def _compile(tree, source, findings):
    """What the compiler alone refuses: a return outside a function, a break outside a loop, an argument twice."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<source>", "exec", dont_inherit=True)
    except SyntaxError as e:
        _syntax(e, source, findings)
    except (RecursionError, MemoryError):
        findings.add("nesting_too_deep", limit=rules.MAX_DEPTH)
    except ValueError:
        findings.add("syntax")


def _syntax(error, source, findings):
    """A syntax error, at its place. The parser's own text quotes the source, and is left out."""
    line = min(max(error.lineno or 1, 1), len(source.lines))
    start = source.lines[line - 1]
    end = source.data.find(b"\n", start)
    text = source.data[start : end if end >= 0 else len(source.data)].decode("utf-8")
    at = start + len(text[: max((error.offset or 1) - 1, 0)].encode("utf-8"))
    findings.add("syntax", (at, at))
