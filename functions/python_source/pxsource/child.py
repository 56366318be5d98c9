"""The process that reads: one request after the other from its standard input, under limits.

A message is its length in four bytes, then JSON. A reply may say "last": then this process ends, because a
source used up memory that CPython does not give back.
"""

import json
import os
import struct
import sys

from .read import read, refused

MEMORY = 512 << 20  # of address space; a source of 256 KB takes a fifth at most
KEEP = 192 << 20  # resident; a process above it is replaced


def limit():
    try:
        import resource
    except ImportError:  # Windows
        return lambda: 0
    for what, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # not on this platform, or lower already
            pass
    unit = 1 if sys.platform == "darwin" else 1024
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main():
    resident = limit()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write where the replies go
    while True:
        message = receive(requests)
        if message is None:
            return
        last = False
        try:
            reply = read(message)
        except (MemoryError, RecursionError):
            reply, last = refused("too_complex"), True
        except Exception as e:  # a mistake of ours, and no finding about the source
            frame = e.__traceback__
            while frame.tb_next:
                frame = frame.tb_next
            where = "%s:%d" % (os.path.basename(frame.tb_frame.f_code.co_filename), frame.tb_lineno)
            send(replies, json.dumps({"error": "%s at %s" % (type(e).__name__, where)}).encode("ascii"))
            return
        try:
            text = json.dumps({"reply": reply, "last": last or resident() > KEEP})
        except (MemoryError, RecursionError):
            text = json.dumps({"reply": refused("too_complex"), "last": True})
        del reply
        send(replies, text.encode("ascii"))


def receive(stream):
    """The next message, or None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack(">I", head)
    body = stream.read(size)
    return json.loads(body) if len(body) == size else None


def send(stream, text):
    stream.write(struct.pack(">I", len(text)))
    stream.write(text)
    stream.flush()
