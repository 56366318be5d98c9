"""The process that waits in a pre-warmed sandbox, serves one job and ends.

It writes one line when it is ready, reads one line, and writes one line for each
call as soon as that has ended, one when the next may begin since nothing is left of
it, and at last one that says it is done. Every call runs in a child of its own; this
process never executes a Function and holds what the child says to the contract. The
channel to the worker is not open in a child.

Where another job of the same Run may follow, it clears away what the last call left
behind, as between two calls, says that it is ready again, and reads one more line.

Isolation is not made here: gVisor around the process is the wall. What is here
keeps honest Functions apart, makes them repeatable, and names what went wrong.

A job of a plugin has one call, of its package's file; see package.py.

The line that is read: {"spec": SPEC, "from": n, "wallMilliseconds": n,
"outputBytes": n, "again": bool}; calls before "from" were answered by another
sandbox, and the limits are what is left of the job's.
"""

import builtins
import gc
import json
import os
import random
import re
import resource
import select
import signal
import sys
import time

import contract
import package
import px

# What a Function may import. python_source refuses the rest when it reads the
# source; this is the same list where it runs.
ALLOWED = frozenset(
    "px math cmath statistics fractions decimal itertools functools bisect collections "
    "dataclasses enum typing operator re json datetime random numpy".split()
)
FILE = "<function>"
LONGEST_LINE = 6 << 20
WRITABLE = ("/tmp", "/work")
REASONS = frozenset(
    "exception result_type result_cyclic not_finite memory import_refused source_invalid symbol_missing exited".split()
)


def preload():
    """Loads what Functions may import, so that a child finds it loaded. numpy is
    large and loads in the child that asks for it."""
    for name in sorted(ALLOWED - {"numpy"}):
        __import__(name)
    __import__("_strptime")
    # The first use of each fills caches that every child would fill again.
    json.loads(json.dumps({"v": [1.5, None, True, "x"]}))
    compile("def f(x):\n    return {'y': x}\n", FILE, "exec")
    gc.collect()
    gc.freeze()


# ---- the child: everything below until run() executes beside hostile code ----


def restricted(name, globals=None, locals=None, fromlist=(), level=0):
    if level != 0 or not isinstance(name, str) or name.partition(".")[0] not in ALLOWED:
        # Parts of the standard library that are written in C import these for
        # themselves, and ask with the builtins of whom they were called by.
        if name not in ("_strptime", "time", "warnings") or type(fromlist) is not list:
            raise ImportRefused
    module = __import__(name, globals, locals, fromlist, level)
    if name.partition(".")[0] == "numpy":
        numpy = sys.modules["numpy"]
        if not getattr(numpy, "_px_seeded", False):
            numpy._px_seeded = True
            numpy.random.seed(0)
    return module


class ImportRefused(ImportError):
    pass


def repeatable(seed):
    """Fixes what would differ between two runs of one job. Comes after the fork, which
    seeds afresh, and after all that draws a number."""
    stream = random.Random(seed)

    def fixed(size):
        return stream.randbytes(size)

    os.urandom = random._urandom = fixed
    random.seed(seed)


def plain(value):
    """What json cannot encode: numpy's arrays and numbers become Python's."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return value.tolist()
    raise TypeError


def line_of(error, file):
    """The deepest line of the source that was called."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def failed(reason, error=None, file=FILE):
    """The frame that says why there is no result."""
    entry = {"reason": reason}
    if error is not None:
        line = line_of(error, file)
        if line:
            entry["line"] = line
        if reason == "exception":
            entry["exception"] = type(error).__name__
    return b"e" + json.dumps(entry).encode()


def gave(values):
    """The frame of a result."""
    try:
        return b"v" + json.dumps(values, separators=(",", ":"), default=plain).encode()
    except ValueError:  # a value that contains itself, or an integer too long to write
        return failed("result_cyclic")
    except (TypeError, RecursionError):
        return failed("result_type")


def call(source, symbol, arguments):
    """Runs the module of the Function, then the Function. Answers the frame that the
    parent reads: a letter, then JSON."""
    module = type(sys)("px_function")
    names = module.__dict__
    allowed = dict(vars(builtins))
    allowed["__import__"] = restricted
    names["__builtins__"] = allowed
    names["px"] = px  # a definition may do without importing it
    try:
        try:
            code = compile(source, FILE, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as error:
            return failed("source_invalid", error)
        sys.modules["px_function"] = module
        exec(code, names)
        definition = names.get(symbol)
        if definition is None:
            return failed("symbol_missing")
        return gave(definition(**arguments))
    except MemoryError as error:
        return failed("memory", error)
    except ImportRefused as error:
        return failed("import_refused", error)
    except (SystemExit, KeyboardInterrupt) as error:
        return failed("exited", error)
    except BaseException as error:
        return failed("exception", error)


def enter(entry):
    """Calls main of a file of a package. Answers a frame, as call does."""
    file = entry["path"]
    try:
        main = package.main(entry["files"], file, os.path.dirname(__file__))
        if main is None:
            return failed("symbol_missing")
        return gave(main(entry["input"]))
    except MemoryError as error:
        return failed("memory", error, file)
    except (SystemExit, KeyboardInterrupt) as error:
        return failed("exited", error, file)
    except BaseException as error:
        if isinstance(error, SyntaxError) and error.filename in entry["files"]:
            return failed("source_invalid", error, file)
        return failed("exception", error, file)


def limit(limits, mapped):
    """Lowers the limits of the process for good. Memory counts from what is mapped
    before the call, processes from this one and its parent."""
    # At the soft limit of CPU time a signal that can be told from others ends the
    # process, a second later one that cannot be caught.
    for which, most in (
        (resource.RLIMIT_AS, mapped + limits["memoryBytes"]),
        (resource.RLIMIT_CPU, limits["cpuSeconds"] + 1),
        (resource.RLIMIT_NPROC, limits["processes"] + 1),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(which, (most - (which == resource.RLIMIT_CPU), most))


def read_call(into):
    """Waits for the call that is this child's, made before there was one."""
    # Everything that a call touches is copied now, before there is one to wait for it.
    json.loads(json.dumps({"source": "", "arguments": {"x": [1.5]}}))
    call("import px\n@px.function()\ndef f(x):\n    return {'y': x + 1}\n", "f", {"x": 1.5})
    message = bytearray()
    while chunk := os.read(into, 1 << 20):
        message += chunk
    os.close(into)
    if not message:
        os._exit(0)
    return json.loads(message)


def child(todo, out, mapped):
    """Runs one call, writes one frame."""
    repeatable(todo.get("seed", 0))
    limit(todo["limits"], mapped)
    frame = enter(todo["entry"]) if "entry" in todo else call(todo["source"], todo["symbol"], todo["arguments"])
    frame += b"\n"
    while frame:
        frame = frame[os.write(out, frame) :]
    os.close(out)


# ---- the parent ----


class Ended(Exception):
    """The child ended, or was ended, without an answer."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


def read_frame(pid, into, wake, deadline, most):
    """What the child wrote until the end of a line (JSON has none inside), or until it
    ended, whoever still holds its end. The status is None where the line was whole
    first: how the child ends does not matter then, and nobody waits for it."""
    frame, status, poll = bytearray(), None, select.poll()
    poll.register(into, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Ended("timeout")
        ready = dict(poll.poll(left * 1000 + 1))
        if wake in ready:
            try:
                os.read(wake, 512)
            except BlockingIOError:
                pass
            done, how = os.waitpid(pid, os.WNOHANG)
            if done:
                status = how
        while status is not None or into in ready:
            try:
                chunk = os.read(into, 1 << 16)
            except BlockingIOError:
                break
            if not chunk:
                if status is not None:
                    return bytes(frame), status
                poll.unregister(into)
                break
            frame += chunk
            if len(frame) > most:
                raise Ended("output_too_large")
            if chunk.endswith(b"\n"):
                return bytes(frame), status
            if status is None:
                break
        if status is not None:
            return bytes(frame), status


def not_finite(_text):
    raise contract.Refused("not_finite")


def integer(text):
    # Python refuses longer ones to save time; a float says what it is.
    return int(text) if len(text) < 400 else not_finite(text)


def answer(entry, frame, status):
    """The entry of the result. The frame may be forged: it is the Function's own."""
    if not frame.endswith(b"\n"):
        if os.WIFSIGNALED(status):
            raise Ended("timeout" if os.WTERMSIG(status) == signal.SIGXCPU else "killed")
        raise Ended("exited")
    try:
        said = json.loads(frame[1:], parse_constant=not_finite, parse_int=integer)
        if frame[:1] == b"v":
            return {"values": contract.results(entry["results"], said) if "results" in entry else contract.entry(said)}
        if frame[:1] == b"e":
            return {"error": error_of(said)}
    except contract.Refused as refused:
        return {"error": {"reason": refused.reason}}
    except (ValueError, RecursionError):
        pass
    return {"error": {"reason": "result_type"}}


IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def error_of(said):
    if type(said) is not dict or said.get("reason") not in REASONS:
        raise contract.Refused("result_type")
    entry = {"reason": said["reason"]}
    line, exception = said.get("line"), said.get("exception")
    if type(line) is int and 1 <= line <= 1 << 20:
        entry["line"] = line
    if type(exception) is str and IDENTIFIER.fullmatch(exception):
        entry["exception"] = exception
    return entry


def end_all():
    """Ends whatever a call left behind: this process is the first of its PID
    namespace, so that -1 is all others."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def wipe():
    """Empties what a call may have written to. False: it could not be emptied."""
    for top in WRITABLE:
        try:
            if not empty(top, 0):
                return False
        except OSError:
            return False
    return True


LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


def inherited():
    """What a call can change of this process, being of the same user, and every later
    child would have from it."""
    limits = [resource.getrlimit(which) for which in LIMITS]
    return limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)


def empty(path, depth):
    if depth > 32:
        return False
    with os.scandir(path) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                os.chmod(item.path, 0o700)
                if not empty(item.path, depth + 1):
                    return False
                os.rmdir(item.path)
            else:
                os.unlink(item.path)
    return True


class Child:
    """A child that runs a call. A fork is most of the time that a call takes: the first
    child is made before there is a job, and reads its call; the others hold theirs when
    they are made."""

    def __init__(self, shim, todo=None):
        waits = todo is None
        call_in, self.todo = os.pipe() if waits else (None, None)
        self.frame, frame_out = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for number in (signal.SIGCHLD, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL)
                for inherited in (shim.channel, self.frame, *shim.wake):
                    os.close(inherited)
                # Standard input is the channel's other half until there is a job.
                os.dup2(shim.null, 0)
                os.close(shim.null)
                if waits:
                    os.close(self.todo)
                    todo = read_call(call_in)
                child(todo, frame_out, shim.mapped)
                os._exit(0)
            except MemoryError:
                os.write(frame_out, b'e{"reason":"memory"}\n')
            finally:
                os._exit(70)
        if waits:
            os.close(call_in)
        os.close(frame_out)
        os.set_blocking(self.frame, False)

    def tell(self, todo):
        message = json.dumps(todo).encode()
        try:
            while message:
                message = message[os.write(self.todo, message) :]
        except BrokenPipeError:
            pass  # it has ended, and has not read its call
        os.close(self.todo)

    def answer(self, shim, entry, deadline, most):
        try:
            return answer(entry, *read_frame(self.pid, self.frame, shim.wake[0], deadline, most + 1))
        except Ended as ended:
            return {"error": {"reason": ended.reason}}
        finally:
            os.close(self.frame)


def todo_of(spec, entry):
    """What a child needs to know of a call."""
    if entry is spec.get("entry"):
        # Its numbers are its own: what it makes of them, such as keys, is no other's.
        return {"entry": {name: entry[name] for name in ("files", "path", "input")}, "limits": spec["limits"], "seed": spec["jobRef"]}
    arguments = {p: contract.argument(entry["inputs"][p], entry["values"][p]) for p in entry["parameters"]}
    return {"source": spec["sources"][entry["source"]], "symbol": entry["symbol"], "arguments": arguments, "limits": spec["limits"]}


def send(channel, message):
    data = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    size = len(data)
    while data:
        data = data[os.write(channel, data) :]
    return size


def read_line():
    data = bytearray()
    while not data.endswith(b"\n"):
        chunk = os.read(0, 1 << 20)
        if not chunk or len(data) > LONGEST_LINE:
            os._exit(3)
        data += chunk
    return json.loads(data)


class Shim:
    """What children must not keep."""

    def __init__(self):
        self.channel = os.dup(1)
        self.null = os.open("/dev/null", os.O_RDWR)
        self.wake = os.pipe()
        for end in self.wake:
            os.set_blocking(end, False)
        self.inherited = inherited()
        self.measure()

    def measure(self):
        with open("/proc/self/statm") as statm:
            self.mapped = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    def clear(self):
        """Leaves nothing of a call. False: something is left, and the sandbox must not
        serve another call."""
        end_all()
        return wipe() and inherited() == self.inherited


def main():
    # end_all() ends every process that this one can see.
    if os.getpid() != 1 or not os.uname().release.endswith("-gvisor"):
        sys.exit("px: this runs inside a sandbox only")
    preload()
    shim = Shim()
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(shim.wake[1], warn_on_full_buffer=False)
    os.dup2(shim.null, 1)
    waiting = Child(shim)  # for the first call
    send(shim.channel, {"ready": 1, "python": "%d.%d.%d" % sys.version_info[:3], "system": os.uname().release})
    os.dup2(shim.null, 2)

    while serve(shim, waiting, read_line()):
        shim.measure()
        waiting = Child(shim)
        send(shim.channel, {"again": 1})
    os._exit(0)  # the worker destroys the sandbox: to end in good order is lost time


def serve(shim, waiting, job):
    """Answers the calls of one job, the first by the child that waits. True: the sandbox
    is to serve another one, and can."""
    started = time.monotonic()
    spec = job["spec"]
    if not job["again"]:
        os.dup2(shim.null, 0)
    deadline = started + job["wallMilliseconds"] / 1000
    left = job["outputBytes"]
    calls = [spec["entry"]] if "entry" in spec else spec["calls"]
    for number in range(job["from"], len(calls)):
        if number == job["from"]:
            waiting.tell(todo_of(spec, calls[number]))
        else:
            waiting = Child(shim, todo_of(spec, calls[number]))
        said = waiting.answer(shim, calls[number], deadline, left)
        left = max(0, left - send(shim.channel, {"call": number, **said}))
        if number + 1 == len(calls):
            break
        if not shim.clear():
            send(shim.channel, {"spoilt": True})
            return False
        send(shim.channel, {"next": number + 1})
    send(shim.channel, {"done": len(calls)})
    if not job["again"]:
        return False
    return shim.clear()


if __name__ == "__main__":
    main()
