"""What `import px` is inside the sandbox: enough that the module of a Function
loads. The contract of a Function was read from its source before, without running
it; here the calls of a definition have no effect.
"""


def function(**_declared):
    """The decorator of a definition: the definition itself."""
    return lambda definition: definition


def _declare(kind):
    def declared(*_arguments, **_members):
        return kind

    declared.__name__ = declared.__qualname__ = kind
    return declared


number = _declare("number")
integer = _declare("integer")
boolean = _declare("boolean")
string = _declare("string")
enum = _declare("enum")
record = _declare("record")
list = _declare("list")
table = _declare("table")
column = _declare("column")
file = _declare("file")
