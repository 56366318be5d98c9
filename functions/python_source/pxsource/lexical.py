"""The source as text, before anything parses it.

Every range is [start, end) in bytes of the UTF-8 source. Lines and columns count from 1, columns in
code points. What is refused here is refused on every Python alike: the rules are our own, not those
of the tokenizer that happens to run.
"""

import re
from bisect import bisect_right

MAX_BYTES = 256 * 1024
MAX_TOKENS = 100_000
MAX_BRACKETS = 64  # open at once; CPython gives up at 200 at the latest
MAX_NUMBER = 400  # characters of one number; CPython refuses integers of more than 4,300 digits
MAX_NAME = 200
MAX_FINDINGS = 100

INVALID = "PX_SOURCE_INVALID"
LIMIT = "PX_LIMIT_EXCEEDED"


class Source:
    """A source and its lines. data is its UTF-8 encoding."""

    def __init__(self, text):
        self.text = text
        self.data = text.encode("utf-8")  # raises UnicodeEncodeError for a lone surrogate
        self.raw = self.data.decode("latin-1")  # one character a byte: indexes are byte offsets
        self.lines = [0]
        at = self.data.find(b"\n")
        while at >= 0:
            self.lines.append(at + 1)
            at = self.data.find(b"\n", at + 1)

    def offset(self, line, column):
        """The byte offset of ast's position: line from 1, column in bytes from 0."""
        return self.lines[min(line, len(self.lines)) - 1] + column

    def span(self, node):
        """The byte range of a node."""
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def place(self, offset):
        """Line and column of a byte offset."""
        line = bisect_right(self.lines, offset)
        return line, len(self.data[self.lines[line - 1] : offset].decode("utf-8", "replace")) + 1


class Findings:
    """What is wrong with one source, up to MAX_FINDINGS, never with text of it.

    params hold keys, names and limits; a name is left out where it is longer than a key could be.
    """

    def __init__(self, source=None):
        self.source = source
        self.list = []
        self.full = False

    def __bool__(self):
        return bool(self.list)

    def add(self, reason, span=(0, 0), /, code=INVALID, **params):
        if self.full:
            return
        if len(self.list) >= MAX_FINDINGS:
            self.full = True
            reason, code, params = "findings", LIMIT, {"limit": MAX_FINDINGS, "observed": MAX_FINDINGS + 1}
        line, column = self.source.place(span[0]) if self.source else (1, 1)
        self.list.append(
            {
                "code": code,
                "reason": reason,
                "line": line,
                "column": column,
                "start": span[0],
                "end": span[1],
                "params": {k: v for k, v in params.items() if not isinstance(v, str) or sayable(v)},
            }
        )

    def node(self, reason, node, /, **params):
        """add, with the range of a node."""
        self.add(reason, self.source.span(node), **params)

    def sorted(self):
        """The findings in the order of the source."""
        return sorted(self.list, key=lambda f: (f["code"] == LIMIT and f["reason"] == "findings", f["start"], f["end"]))


_sayable = re.compile(r"[A-Za-z0-9_.]{1,80}").fullmatch


def sayable(text):
    """Whether text is a name or key, and may stand in a finding."""
    return _sayable(text) is not None


# Control characters, and what cannot be seen or changes the order in which the rest is seen. The joiners
# U+200C and U+200D stay: words of some scripts are written with them.
_odd = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_cookie = re.compile(r"[ \t]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)


def check_text(source, findings):
    """Refuses what no source may hold as text. False: it must not be parsed."""
    size = len(source.data)
    if size > MAX_BYTES:
        findings.add("source_bytes", code=LIMIT, limit=MAX_BYTES, observed=size)
        return False
    at = byte = 0
    for m in _odd.finditer(source.text):
        byte += len(source.text[at : m.start()].encode("utf-8"))
        at = m.start()
        findings.add(_kind(m.group(), byte), (byte, byte + len(m.group().encode("utf-8"))))
    lines = source.text.split("\n", 2)[:2]
    start = 0
    for i, line in enumerate(lines):
        m = _cookie.match(line)
        if m and m.group(1).lower().replace("_", "-") not in ("utf-8", "utf8"):
            span = start + len(line[: m.start(1)].encode("utf-8"))
            findings.add("foreign_encoding", (span, span + len(m.group(1))))
        if m or line.strip() and not line.lstrip().startswith("#"):
            break  # a cookie stands on the first line, or on the second below a comment
        start += len(line.encode("utf-8")) + 1
    return not findings


def _kind(char, byte):
    if char == "\ufeff":
        return "byte_order_mark" if byte == 0 else "invisible_character"
    if char == "\x00":
        return "nul_character"
    if char == "\r":
        return "bare_carriage_return"
    if char < "\xa0":
        return "control_character"
    return "line_separator" if char in "\u2028\u2029" else "invisible_character"


_token = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+|\\\r?\n|\#[^\n]*)
    | (?P<name>[A-Za-z_\x80-\xff][0-9A-Za-z_\x80-\xff]*+(?!["']))  # a fast way for most of them
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<other>[-+*/%=<>,:;|&^~!@]+|\.(?![0-9]))
    | (?P<number>\.?[0-9](?:[eE][+-]|[0-9A-Za-z_.])*)
    | (?P<string>(?P<prefix>(?:[rR][bBfF]|[bBfF][rR]|[rRbBuUfF])?)(?:
          \"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}
        | '{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
        | "[^"\\\n]*(?:\\(?:\r\n|.)[^"\\\n]*)*"
        | '[^'\\\n]*(?:\\(?:\r\n|.)[^'\\\n]*)*'
      ))
    | (?P<word>[A-Za-z_\x80-\xff][0-9A-Za-z_\x80-\xff]*)
    | (?P<quoting>["'])
    | (?P<odd>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_foreign = re.compile(r"[\x80-\xff]")


def check_tokens(source, findings):
    """Refuses what no source may hold as tokens. False: it must not be parsed.

    Strings are delimited by the rules of Python 3.11, in which the text of an f-string is found first and
    its fields are looked for in it; 3.12 allows more inside fields, and what only it allows is refused.
    """
    try:
        return _check_tokens(source, findings)
    except Unclosed:
        findings.add("string_not_closed", (len(source.data), len(source.data)))
        return False


def _check_tokens(source, findings):
    count = depth = 0
    fit = True
    ascii = source.data.isascii()
    for m in _token.finditer(source.raw):
        kind = m.lastgroup
        if kind == "blank":
            continue
        count += 1
        if kind == "name" or kind == "word":
            if not ascii or m.end() - m.start() > MAX_NAME:
                _check_name(source, findings, m.start(), m.end())
        elif kind == "other":
            count += m.end() - m.start() - 1  # more than there are, never fewer
        elif kind == "open":
            depth += 1
            if depth > MAX_BRACKETS:
                findings.add("nesting_too_deep", m.span(), limit=MAX_BRACKETS)
                return False
        elif kind == "close":
            depth = max(depth - 1, 0)
        elif kind == "number":
            if m.end() - m.start() > MAX_NUMBER:
                findings.add("number_too_long", m.span(), limit=MAX_NUMBER, observed=m.end() - m.start())
                fit = False
        elif kind == "string":
            if "f" in m.group("prefix").lower():
                fit = _check_fstring(source, findings, m) and fit
        elif kind == "quoting":
            raise Unclosed
        if count > MAX_TOKENS:
            findings.add("too_many_tokens", m.span(), limit=MAX_TOKENS)
            return False
    return fit


def _tokens(source, start, end):
    """The tokens of a part of the source."""
    for m in _token.finditer(source.raw, start, end):
        kind = m.lastgroup
        if kind == "quoting":
            raise Unclosed
        if kind != "blank":
            yield kind, m.start(), m.end(), m


def _check_name(source, findings, start, end):
    # Python folds such names (NFKC) after the reviewer has read them.
    if _foreign.search(source.raw, start, end):
        findings.add("non_ascii_identifier", (start, end))
    elif end - start > MAX_NAME:
        findings.add("name_too_long", (start, end), limit=MAX_NAME, observed=end - start)


class Unclosed(Exception):
    """A string does not end: nothing can be said of what follows, and the parser will not take it either."""


class _Bad(Exception):
    """A field that Python 3.11 does not read."""


def _check_fstring(source, findings, match):
    """False: the minors of Python read it differently, so that none is asked."""
    start, end = match.end("prefix"), match.end()
    quotes = 3 if end - start >= 6 and source.raw[start] * 3 == source.raw[start : start + 3] else 1
    start, end = start + quotes, end - quotes
    raw = "r" in match.group("prefix").lower()
    try:
        for a, b in _fields(source.raw, start, end, raw):
            for kind, s, e, m in _tokens(source, a, b):
                if kind in ("name", "word"):
                    _check_name(source, findings, s, e)
                elif kind == "number" and e - s > MAX_NUMBER:
                    raise _Bad
                elif kind == "string" and "f" in m.group("prefix").lower():
                    if not _check_fstring(source, findings, m):
                        return False
    except (_Bad, Unclosed):
        findings.add("f_string_form", match.span())
        return False
    return True


def _fields(text, start, end, raw):
    """The ranges of the expressions in the fields of an f-string's body, by the rules of Python 3.11."""
    found = []
    at = _literal(text, start, end, raw, 0, found)
    if at != end:
        raise _Bad
    return found


def _literal(text, at, end, raw, level, found):
    while at < end:
        c = text[at]
        if c == "\\" and not raw and text.startswith("\\N{", at) and at + 2 < end:
            close = text.find("}", at, end)
            if close < 0:
                raise _Bad
            at = close + 1
        elif c == "\\" and not raw and at + 1 < end and text[at + 1] not in "{}":
            at += 2
        elif c == "{" and level == 0 and text.startswith("{{", at) and at + 1 < end:
            at += 2
        elif c == "}" and level == 0 and text.startswith("}}", at) and at + 1 < end:
            at += 2
        elif c == "{":
            at = _field(text, at + 1, end, raw, level, found)
        elif c == "}":
            if level == 0:
                raise _Bad
            return at
        else:
            at += 1
    return at


_pairs = {")": "(", "]": "[", "}": "{"}


def _field(text, at, end, raw, level, found):
    """Reads a field from behind its brace to behind its closing brace."""
    if level >= 2:
        raise _Bad
    start, brackets, quote = at, [], ""
    while at < end:
        c = text[at]
        if c == "\\":
            raise _Bad
        if quote:
            if text.startswith(quote, at):
                at += len(quote)
                quote = ""
            else:
                at += 1
            continue
        if c in "\"'":
            quote = c * 3 if text.startswith(c * 3, at) else c
            at += len(quote)
            continue
        if c in "([{":
            brackets.append(c)
            if len(brackets) > MAX_BRACKETS:
                raise _Bad
        elif c == "#":
            raise _Bad
        elif not brackets and c in "!:=<>}":
            if text[at : at + 2] in ("!=", "==", "<=", ">="):
                at += 2
                continue
            if c not in "<>":
                break
        elif c in ")]}":
            if not brackets or brackets.pop() != _pairs[c]:
                raise _Bad
        at += 1
    if quote or brackets or at >= end or text[start:at].lstrip()[:1] == "*":
        raise _Bad
    found.append((start, at))
    if text[at] == "=":
        at += 1
        while at < end and text[at] in " \t\r\n":
            at += 1
    if at < end and text[at] == "!":
        at += 2
    if at < end and text[at] == ":":
        at = _literal(text, at + 1, end, raw, level + 1, found)
    if at >= end or text[at] != "}":
        raise _Bad
    return at + 1
