# What hostile code would try first. It gets at modules the way that hostile code
# does: through the classes that exist. Says which checks held.


def f(token, secret, addresses, abstract):
    wrap = [c for c in object.__subclasses__() if c.__name__ == "_wrap_close"][0]
    os = wrap.__init__.__globals__
    load = os["sys"].modules["builtins"].__import__
    socket, errno = load("socket"), load("errno")
    held = []

    if os["uname"]().release.endswith("-gvisor"):
        held.append("kernel_is_gvisor")

    def unreadable(path):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError:
            return True
        return False

    paths = [secret, "/proc/1/root" + secret, "/proc/self/root" + secret, "/etc/shadow", "/etc/hosts", "/root/.bashrc", "/dev/mem", "/dev/kmsg"]
    if all(unreadable(path) for path in paths) and not os["path"].exists(os["path"].dirname(secret)):
        held.append("host_files_absent")

    def unreachable(family, address):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as s:
                s.settimeout(0.5)
                s.connect(address)
        except OSError:
            return True
        return False

    def nameless(name):
        try:
            socket.getaddrinfo(name, 80)
        except OSError:
            return True
        return False

    targets = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        targets.append((socket.AF_INET, (host, int(port))))
    targets.append((socket.AF_UNIX, "\0" + abstract))
    if all(unreachable(*target) for target in targets) and nameless(b"amazonaws.com"):
        held.append("network_is_absent")

    def read_only(path):
        try:
            with open(path, "w"):
                pass
        except OSError as error:
            return error.errno == errno.EROFS
        return False

    def unwritable(path):
        try:
            with open(path, "w"):
                pass
        except OSError:
            return True
        return False

    if os["getuid"]() == 65534 and (read_only("/x") or unwritable("/x") and os["statvfs"]("/").f_flag & 1) and unwritable("/usr/bin/python3") and unwritable("/px/shim.py"):
        held.append("root_is_read_only")

    if set(os["environ"]) <= {"PATH", "HOME", "LANG", "PYTHONHASHSEED", "PYTHONUTF8", "LD_LIBRARY_PATH"}:
        held.append("environment_is_ours")

    return {"echo": token, "held": held}
