"""What the code of a source may say, beyond being Python.

These rules are the second line: what runs is kept apart by the sandbox, which trusts no source. They keep
the contract readable without running anything, keep imports and state where a reviewer sees them, and refuse
the plain ways out by name.
"""

import ast

MAX_DEPTH = 200  # of the syntax tree; CPython itself gives up far later, and not at the same depth in each version

# One list with the sandbox: what is not here cannot be imported there either.
IMPORTS = frozenset(
    """math cmath statistics fractions decimal itertools functools bisect collections dataclasses
    enum typing operator re json datetime random numpy""".split()
)

# Built-in names that reach the interpreter, files or the console.
BUILTINS = frozenset(
    """__import__ eval exec compile open input breakpoint globals locals vars dir getattr setattr delattr
    help exit quit copyright credits license memoryview""".split()
)

# Modules that others hold as attributes: statistics.sys, random._os.
MODULES = frozenset(
    """sys os posix nt subprocess builtins importlib ctypes socket inspect codecs io signal gc marshal pickle
    shutil pathlib tempfile multiprocessing threading asyncio""".split()
)

# Methods that a class in a Function may define.
METHODS = frozenset(
    """__init__ __post_init__ __repr__ __str__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __len__
    __iter__ __next__ __getitem__ __setitem__ __contains__ __call__ __neg__ __abs__ __add__ __radd__ __sub__ __rsub__
    __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __matmul__ __enter__ __exit__""".split()
)
PRIVATE = frozenset(("_replace", "_asdict", "_make", "_fields"))  # public in all but name: of namedtuples

# The syntax that is known. What a newer Python adds is refused by name until someone has looked at it.
NODES = frozenset(
    """Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If With Match Raise Try TryStar
    Assert Import ImportFrom Nonlocal Expr Pass Break Continue BoolOp NamedExpr BinOp UnaryOp Lambda IfExp Dict Set
    ListComp SetComp DictComp GeneratorExp Yield YieldFrom Compare Call FormattedValue JoinedStr Constant Attribute
    Subscript Starred Name List Tuple Slice Load Store Del And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr
    BitXor BitAnd FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn comprehension ExceptHandler
    arguments arg keyword alias withitem match_case MatchValue MatchSingleton MatchSequence MatchMapping MatchClass
    MatchStar MatchAs MatchOr""".split()
)
_deeper = (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)

# The fields of each kind of node that hold nodes, apart from contexts and operators, which hold nothing.
_leaves = frozenset("ctx op ops id attr name names level lineno kind conversion simple is_async type_comment rest kwd_attrs".split())
_holding = {
    getattr(ast, k): tuple(f for f in getattr(ast, k)._fields if f not in _leaves)
    for k in NODES
    if hasattr(ast, k)
}
_holding[ast.Constant] = ()
_holding[ast.Import] = _holding[ast.ImportFrom] = ("names",)


class TooDeep(Exception):
    """The tree is nested deeper than MAX_DEPTH."""


def children(node):
    """The nodes right below a node, in the order of the source. It stands for ast.iter_child_nodes, which is slow."""
    out = []
    fields = _holding.get(node.__class__)
    if fields is None:  # refused by name; still looked into
        fields = node._fields
    for f in fields:
        v = getattr(node, f)
        if v.__class__ is list:
            for e in v:
                if isinstance(e, ast.AST):
                    out.append(e)
        elif isinstance(v, ast.AST):
            out.append(v)
    return out


def deep(tree):
    """Whether the tree is nested deeper than MAX_DEPTH. It does not recurse."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return True
        level = [c for n in level for c in children(n)]
    return False


def imported(node, findings):
    """Checks a top-level import. The (bound name, root module) pairs; none of px, which is no module of Python."""
    out = []
    if isinstance(node, ast.ImportFrom):
        if node.level:
            findings.node("import_relative", node)
            return out
        root = node.module.split(".")[0]
        if root not in IMPORTS:
            findings.node("import_not_allowed", node, module=root)
            return out
        for a in node.names:
            if a.name == "*":
                findings.node("import_star", a, module=root)
            elif a.name.startswith("_") or a.name in MODULES:
                findings.node("name_refused", a, name=a.name)
            else:
                out.append((a.asname or a.name, root))
        return out
    for a in node.names:
        root = a.name.split(".")[0]
        if a.name == "px":
            if a.asname:
                findings.node("import_renamed", a, module="px")
        elif root not in IMPORTS:
            findings.node("import_not_allowed", a, module=root)
        elif any(p.startswith("_") or p in MODULES for p in a.name.split(".")):
            findings.node("name_refused", a, name=a.name)
        else:
            out.append((a.asname or root, root))
    return out


class Walk:
    """One pass over a tree: every node once, with what it stands in."""

    def __init__(self, source, findings, modules=()):
        self.source, self.findings = source, findings
        self.modules = frozenset(modules)  # names that stand for imported modules
        self.parameters = frozenset()

    def run(self, nodes, parameters=(), direct=False, depth=1):
        """Checks nodes, which stand at a depth, and what is below them. It raises TooDeep.

        direct: they are a Function's own code, which may not yield.
        """
        self.parameters = frozenset(parameters)
        # (node, its depth, the node whose place is told, in a class's body, in the Function's own code)
        stack = [(n, depth, None, False, direct) for n in nodes]
        pop, push = stack.pop, stack.append
        while stack:
            node, depth, anchor, method, direct = pop()
            check, fields, deeper, in_class, joined = _kinds.get(node.__class__, _unknown)
            if check:
                check(self, node, anchor or node, method, direct)
            if not fields:
                continue
            depth += 1
            if depth > MAX_DEPTH:
                raise TooDeep
            if deeper:
                direct = False
            if joined and not anchor:
                anchor = node  # Python 3.11 does not know where in an f-string its parts stand
            for f in fields:
                v = getattr(node, f)
                if v.__class__ is list:
                    for e in v:
                        if isinstance(e, _AST):
                            push((e, depth, anchor, in_class, direct))
                elif isinstance(v, _AST):
                    push((v, depth, anchor, in_class, direct))

    def _refuse(self, node, at, method, direct):
        self.say("syntax_not_supported", at, node=type(node).__name__)

    def say(self, reason, node, /, **params):
        if hasattr(node, "lineno"):
            self.findings.node(reason, node, **params)
        else:  # comprehension, arguments, withitem, match_case: no place of their own
            self.findings.add(reason, **params)

    def name(self, text, node, builtin=True):
        """A name that the code gives or uses."""
        if text is None:
            return
        if text.startswith("__"):
            self.say("name_refused", node, name=text)
        elif text == "px":
            self.say("px_outside_contract", node)
        elif builtin and text in BUILTINS and text not in self.parameters:
            self.say("name_refused", node, name=text)

    def _Name(self, node, at, method, direct):
        self.name(node.id, at)

    def _Attribute(self, node, at, method, direct):
        attr = node.attr
        if attr.startswith("__") and attr != "__init__":
            self.say("name_refused", at, name=attr)
        elif attr in MODULES or attr.startswith("_") and attr not in PRIVATE and self.of_module(node.value):
            self.say("name_refused", at, name=attr)

    def of_module(self, node):
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.modules

    def _Constant(self, node, at, method, direct):
        value = node.value
        if type(value) is float and value - value != 0 or type(value) is complex and value - value != 0:
            self.say("number_out_of_range", at)

    def _FunctionDef(self, node, at, method, direct):
        if not (method and node.name in METHODS):
            self.name(node.name, at)

    def _ClassDef(self, node, at, method, direct):
        self.name(node.name, at)

    def _arg(self, node, at, method, direct):
        self.name(node.arg, at, builtin=False)

    def _keyword(self, node, at, method, direct):
        self.name(node.arg, at, builtin=False)

    def _Handler(self, node, at, method, direct):
        self.name(node.name, at)

    def _Nonlocal(self, node, at, method, direct):
        for n in node.names:
            self.name(n, at)

    def _MatchMapping(self, node, at, method, direct):
        self.name(node.rest, at)

    def _MatchClass(self, node, at, method, direct):
        for n in node.kwd_attrs:
            self.name(n, at, builtin=False)

    def _Import(self, node, at, method, direct):
        self.say("import_not_at_top", at)

    def _Yield(self, node, at, method, direct):
        if direct:
            self.say("generator_refused", at)

    def _comprehension(self, node, at, method, direct):
        if node.is_async:
            self.say("syntax_not_supported", node.target, node="AsyncFor")


_checks = {
    "Name": Walk._Name,
    "Attribute": Walk._Attribute,
    "Constant": Walk._Constant,
    "FunctionDef": Walk._FunctionDef,
    "ClassDef": Walk._ClassDef,
    "arg": Walk._arg,
    "keyword": Walk._keyword,
    "ExceptHandler": Walk._Handler,
    "MatchAs": Walk._Handler,
    "MatchStar": Walk._Handler,
    "MatchMapping": Walk._MatchMapping,
    "MatchClass": Walk._MatchClass,
    "Nonlocal": Walk._Nonlocal,
    "Import": Walk._Import,
    "ImportFrom": Walk._Import,
    "Yield": Walk._Yield,
    "YieldFrom": Walk._Yield,
    "comprehension": Walk._comprehension,
}

_AST = ast.AST
_unknown = (Walk._refuse, (), False, False, False)
_kinds = {
    c: (_checks.get(c.__name__), f, issubclass(c, _deeper), c is ast.ClassDef, c is ast.JoinedStr) for c, f in _holding.items()
}
