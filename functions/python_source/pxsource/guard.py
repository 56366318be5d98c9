"""Keeps the process that reads, and answers for it when a source kills it or takes too long.

So the source that does it gets a finding, and the next one a fresh process.
"""

import json
import os
import subprocess
import sys
import threading

from . import child
from .read import PYTHON, items, refused

SECONDS = 12.0  # of the clock for one source, on a machine that has other work too; see child.SECONDS
_start = "import sys; sys.path.insert(0, sys.argv[1]); from pxsource.child import main; main()"


class Guard:
    """Not for use by several threads at once."""

    def __init__(self, seconds=SECONDS):
        self.seconds = seconds
        self.process = None
        self.begin()

    def begin(self):
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", _start, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what it might say quotes the source
            env={k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "SystemRoot")},
        )

    def end(self):
        if self.process:
            self.process.kill()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None

    def answer(self, request, remaining=lambda: 3600.0):
        """The reply to a request. It raises read.Malformed, and TimeoutError when remaining() seconds will not do."""
        listed, several = items(request)
        replies = []
        for item in listed:
            if remaining() < self.seconds + 1:
                raise TimeoutError("%d of %d sources are read" % (len(replies), len(listed)))
            replies.append(self.one(item))
        out = {"v": 1, "python": PYTHON}
        out.update({"items": replies} if several else replies[0])
        return out

    def one(self, item):
        for attempt in (1, 2):
            if self.process is None or self.process.poll() is not None:
                self.end()
                self.begin()
            reply, sent = self.ask(item)
            if reply is not None:
                return reply
            self.end()
            if sent:  # else it died idle, through no fault of this source
                break
        self.begin()
        return refused("too_complex")

    def ask(self, item):
        """The reply, or None; and whether the process may have looked at the item."""
        process, sent = self.process, False
        timer = threading.Timer(self.seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            # A surrogate that stands alone travels as an escape.
            child.send(process.stdin, json.dumps(item).encode("ascii"))
            sent = True
            message = child.receive(process.stdout)
        except (OSError, ValueError):
            return None, sent
        finally:
            timer.cancel()
        if message is None:
            return None, sent
        if "error" in message:
            self.end()
            self.begin()
            raise RuntimeError(message["error"])
        if message["last"]:
            self.end()
            self.begin()
        return message["reply"], sent
