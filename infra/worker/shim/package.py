"""The files of a plugin's package as modules: src/analyze.py is `import analyze`,
src/text/words.py is `import text.words`. They come before the standard library, as
those of the folder in which Python is started do. Nothing of them is on a disk.

The file that is called has a function main(input), which returns the result.

Runs in the child, beside hostile code.
"""

import sys
from importlib.machinery import FrozenImporter, ModuleSpec


class Package:
    """Finds and loads the files of a package."""

    def __init__(self, files):
        self.files = files  # by path

    def find_spec(self, name, path=None, target=None):
        place = "src/" + name.replace(".", "/")
        for file, folder in ((place + "/__init__.py", True), (place + ".py", False)):
            if file in self.files:
                spec = ModuleSpec(name, self, origin=file, is_package=folder)
                spec.has_location = True
                return spec
        if any(file.startswith(place + "/") for file in self.files):
            return ModuleSpec(name, None, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file = module.__spec__.origin
        exec(compile(self.files[file], file, "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name):
        """For who shows or inspects a source."""
        spec = self.find_spec(name)
        return self.files[spec.origin] if spec and spec.origin else None


def main(files, file, own):
    """Imports the file and returns its main, None where there is none. own is the folder
    of the shim, which is not what a package imports from."""
    sys.path[:] = [folder for folder in sys.path if folder != own]
    for name in {path.removesuffix(".py").split("/")[1] for path in files} | {"contract", "package", "px"}:
        if name not in sys.builtin_module_names and FrozenImporter.find_spec(name) is None:
            for loaded in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
                del sys.modules[loaded]
    sys.meta_path.insert(len(sys.meta_path) - 1, Package(files))
    sys.argv = [file]
    name = file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    __import__(name)
    found = getattr(sys.modules[name], "main", None)
    return found if callable(found) else None
