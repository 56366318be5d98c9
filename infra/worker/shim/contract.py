"""Holds values to the contract of a port: type, shape, finite, null. Units are not
seen here, since values are plain numbers in the declared unit; constraints and units
are checked again where a value is used.

Runs in the process that never executes a Function.
"""

import math

EXACT = 2**53 - 1  # integers that every JSON reader keeps
MOST = 100_000  # of one dimension of an array


DEEPEST = 48  # of what an entrypoint returns; around it there is more, and all of it has to be read
MEMBERS = frozenset(("summary", "data", "evidence", "actions"))


class Refused(Exception):
    """A value that does not fit. Its reason is one of the names of the protocol."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


def argument(contract, value):
    """The value that a Function is called with: numbers are floats, integers ints."""
    if value is None:
        return None
    kind = contract["type"]
    if kind == "number":
        return _each(value, float)
    if kind == "integer":
        return _each(value, int)
    if kind == "list":
        return [argument(contract["of"], v) for v in value]
    if kind == "record":
        fields = contract.get("fields", {})
        return {k: argument(fields[k], v) if k in fields else v for k, v in value.items()}
    if kind == "table":
        columns = {c["columnKey"]: c for c in contract.get("columns", ())}
        return [{k: argument(columns[k], v) if k in columns else v for k, v in row.items()} for row in value]
    return value


def _each(value, convert):
    if isinstance(value, list):
        return [_each(v, convert) for v in value]
    return None if value is None else convert(value)


def results(contracts, values):
    """What a Function returned, as it travels, or Refused."""
    if type(values) is not dict:
        raise Refused("result_type")
    for key in contracts:
        if key not in values:
            raise Refused("result_missing")
    for key in values:
        if key not in contracts:
            raise Refused("result_extra")
    return {key: result(contract, values[key]) for key, contract in contracts.items()}


def result(contract, value):
    if value is None:
        if contract.get("nullable", False):
            return None
        raise Refused("result_null")
    kind = contract.get("type")
    if kind in _scalars:
        shape = contract.get("shape", "scalar")
        if shape == "scalar":
            return _scalars[kind](contract, value)
        return _array(contract, list(shape), 0, value)
    if kind == "list":
        if type(value) is not list:
            raise Refused("result_type")
        _count(contract, value)
        return [result(contract["of"], v) for v in value]
    if kind == "record":
        return _members(contract.get("fields", {}), value)
    if kind == "table":
        if type(value) is not list:
            raise Refused("result_type")
        _count(contract, value)
        columns = {c["columnKey"]: c for c in contract.get("columns", ())}
        return [_members(columns, row) for row in value]
    raise Refused("result_type")  # a file, or a type of a later version


def entry(values):
    """What an entrypoint returned, as it travels, or Refused. What its members must be is
    looked at where the result is used; here it is what every JSON reader keeps."""
    if type(values) is not dict:
        raise Refused("result_type")
    if not MEMBERS >= values.keys():
        raise Refused("result_extra")
    level, depth = [values], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Refused("result_depth")
        below = []
        for value in level:
            if type(value) is dict:
                for key in value:
                    _string(None, key)
                below.extend(value.values())
            elif type(value) is list:
                below.extend(value)
            elif type(value) is str:
                _string(None, value)
            elif type(value) is int:
                _integer(None, value)
            elif type(value) is float:
                _number(None, value)
        level = below
    return values


def _members(contracts, value):
    if type(value) is not dict:
        raise Refused("result_type")
    if value.keys() != contracts.keys():
        raise Refused("result_shape")
    return {key: result(contract, value[key]) for key, contract in contracts.items()}


def _count(contract, value):
    least, most = contract.get("minItems"), contract.get("maxItems")
    if (least is not None and len(value) < least) or (most is not None and len(value) > most):
        raise Refused("result_shape")


def _array(contract, sizes, dimension, value):
    """An array at a dimension. The first array of a dimension of any size settles its size
    for all that come after it: [null, null] is any rectangle, not rows of any length.
    """
    if dimension == len(sizes):
        if value is None:  # an element may be null where the whole may
            return result(contract, value)
        return _scalars[contract["type"]](contract, value)
    if type(value) is not list:
        raise Refused("result_shape")
    if sizes[dimension] is None and len(value) <= MOST:
        sizes[dimension] = len(value)
    if len(value) != sizes[dimension]:
        raise Refused("result_shape")
    return [_array(contract, sizes, dimension + 1, v) for v in value]


def _scalar(value):
    if isinstance(value, (list, dict)):
        raise Refused("result_type" if isinstance(value, dict) else "result_shape")


def _number(_contract, value):
    _scalar(value)
    if type(value) not in (int, float):
        raise Refused("result_type")
    try:
        value = float(value)
    except OverflowError:
        raise Refused("not_finite") from None
    if not math.isfinite(value):
        raise Refused("not_finite")
    return value


def _integer(_contract, value):
    _scalar(value)
    if type(value) is float and not math.isfinite(value):
        raise Refused("not_finite")
    if type(value) is not int:
        raise Refused("result_type")
    if abs(value) > EXACT:
        raise Refused("result_range")
    return value


def _boolean(_contract, value):
    _scalar(value)
    if type(value) is not bool:
        raise Refused("result_type")
    return value


def _string(_contract, value):
    _scalar(value)
    if type(value) is not str:
        raise Refused("result_type")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        raise Refused("result_type") from None
    return value


def _enum(contract, value):
    if _string(contract, value) not in contract.get("values", ()):
        raise Refused("result_type")
    return value


_scalars = {"number": _number, "integer": _integer, "boolean": _boolean, "string": _string, "enum": _enum}
