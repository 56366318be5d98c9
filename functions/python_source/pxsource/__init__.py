"""Reads Python source without executing it: CPython's own ast and compile(), and nothing else.

Modules, each knowing only those before it:
    lexical    the source as text: bytes, lines, tokens; and Findings
    literal    the value of an expression that is a literal
    ports      px.number(...), px.table(...): calls that say what a port takes
    rules      what the code itself may say: names, imports, kinds of statements
    function   one @px.function definition, with its contract
    flow       the declarative subset in which a Flow is written
    read       one request, to its reply
    child      the process that reads, under limits
    guard      keeps that process, and answers for it when it dies
"""
