# Runs on the machine whose Python becomes the sandbox's: says which files a Python
# needs that has loaded all that Functions may import. Arguments: the modules.
import json, os, sys, sysconfig

missing = []
for name in sys.argv[1:]:
    try:
        __import__(name)
    except ImportError:
        missing.append(name)

mapped = set()
with open("/proc/self/maps") as maps:
    for line in maps:
        fields = line.split(None, 5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            mapped.add(fields[5].rstrip("\n"))
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": list(sys.version_info[:3]),
    "executable": os.path.realpath("/proc/self/exe"),
    "stdlib": os.path.dirname(os.path.realpath(os.__file__)),
    "libdir": getattr(sys, "platlibdir", "lib"),
    "mapped": sorted(mapped),
    "missing": missing,
    "numpy": os.path.dirname(os.path.realpath(sys.modules["numpy"].__file__)) if "numpy" in sys.modules else "",
}))
