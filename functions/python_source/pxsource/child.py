"""The process that reads: one request after the other from its standard input, under limits.

A message is its length in four bytes, then JSON. A reply may say "last": then this process ends, because a
source used up memory that CPython does not give back.
"""

import gc
import json
import os
import struct
import sys

from .read import read, refused

MEMORY = 512 << 20  # of address space; a source of 256 KB takes a fifth at most
KEEP = 192 << 20  # resident; a process above it is replaced
SECONDS = 5  # of processor time for one source; one of 256 KB takes half a second


class Limits:
    """What the platform can hold this process to. Without, the guard's clock is left."""

    def __init__(self):
        try:
            import resource
        except ImportError:  # Windows
            resource = None
        self.resource = resource
        self.set("RLIMIT_AS", MEMORY, MEMORY)
        self.set("RLIMIT_CORE", 0, 0)

    def set(self, name, soft, hard):
        if self.resource:
            try:
                self.resource.setrlimit(getattr(self.resource, name), (soft, hard))
            except (ValueError, OSError):  # not on this platform, or lower already
                pass

    def begin(self):
        """Gives the next source its time; the system ends a process that takes more."""
        if self.resource:
            used = self.resource.getrusage(self.resource.RUSAGE_SELF)
            hard = self.resource.getrlimit(self.resource.RLIMIT_CPU)[1]
            self.set("RLIMIT_CPU", int(used.ru_utime + used.ru_stime) + 1 + SECONDS, hard)

    def full(self):
        if not self.resource:
            return False
        unit = 1 if sys.platform == "darwin" else 1024
        return self.resource.getrusage(self.resource.RUSAGE_SELF).ru_maxrss * unit > KEEP


def main():
    limits = Limits()
    gc.freeze()
    gc.disable()  # what a source leaves behind has no cycles, but for the rare exception
    read_since = 0
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write where the replies go
    while True:
        message = receive(requests)
        if message is None:
            return
        last = False
        limits.begin()
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
            text = json.dumps({"reply": reply, "last": last or limits.full()})
        except (MemoryError, RecursionError):
            text = json.dumps({"reply": refused("too_complex"), "last": True})
        del reply
        send(replies, text.encode("ascii"))
        read_since += 1
        if read_since == 64:
            read_since = 0
            gc.collect()


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
