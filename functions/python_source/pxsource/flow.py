"""The declarative subset of Python in which a Flow is written. Nothing reads it yet."""


def flow(source, tree, findings):
    """What the source says of its Flow."""
    findings.add("kind_not_supported", kind="flow")
    return None
