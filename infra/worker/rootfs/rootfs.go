// Package rootfs makes the read-only root file system of a sandbox from a python3 of
// this machine: the interpreter, its standard library without what no Function can
// use, the shared libraries that it has loaded, and the shim. Paths inside are the
// same whatever the machine's are, so that nothing tells whose machine it is.
//
// It knows nothing of gVisor: a folder comes out, which a driver mounts or packs.
package rootfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/worker/shim"
)

// Places inside a rootfs.
const (
	Executable = "/usr/bin/python3"
	Shim       = "/px/shim.py"
	Libraries  = "/usr/lib/px" // all shared libraries, by their sonames
)

// Arguments starts the shim: without site, without writing bytecode.
func Arguments() []string { return []string{Executable, "-S", "-s", "-B", Shim} }

// Environment is all of the environment of a sandbox. The hash seed is fixed: a set
// has one order, today and tomorrow.
func Environment() []string {
	return []string{"PATH=/usr/bin", "HOME=/work", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONUTF8=1", "LD_LIBRARY_PATH=" + Libraries}
}

// format changes when a rootfs of an earlier worker must not be used again.
const format = "3"

//go:embed discover.py
var discover string

// modules is what is loaded when the libraries are listed: what a Function may
// import, what files of packages are likely to, what the shim needs, and what the probe
// tries to break out with.
var modules = strings.Fields(`math cmath statistics fractions decimal itertools functools bisect collections
	dataclasses enum typing operator re json datetime random _strptime
	array csv hashlib heapq struct unicodedata
	resource select signal time socket zlib binascii`)

// leftOut are folders of the standard library that hold nothing for a Function.
var leftOut = []string{"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data",
	"site-packages", "dist-packages", "venv", "curses", "sqlite3", "dbm", "distutils", "lib-dynload"}

// ErrNoPython says that this machine has no python3 that can be used; its text says
// why.
var ErrNoPython = errors.New("no usable python3")

// A Python is an interpreter of this machine and the files it needs.
type Python struct {
	Implementation string
	Version        [3]int
	Executable     string // the file itself, behind shims, links and virtual environments
	Stdlib         string
	LibDir         string   // lib, or lib64 where the distribution says so
	Mapped         []string // shared objects and the interpreter's file
	Missing        []string
	Numpy          string // its folder, or "" where there is none
}

// Minor is the version that a Project may pin, as "3.11".
func (p Python) Minor() string { return fmt.Sprintf("%d.%d", p.Version[0], p.Version[1]) }

// String is the full version, as "3.11.2".
func (p Python) String() string {
	return fmt.Sprintf("%d.%d.%d", p.Version[0], p.Version[1], p.Version[2])
}

// Find asks a command, such as python3 or a path, which Python it is. numpy comes
// along where with is true and the Python has it.
func Find(ctx context.Context, command string, withNumpy bool) (Python, error) {
	flags, names := []string{"-I", "-S"}, modules
	if withNumpy {
		flags, names = []string{"-I"}, append(slices.Clone(modules), "numpy")
	}
	cmd := exec.CommandContext(ctx, command, append(append(flags, "-c", discover), names...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return Python{}, fmt.Errorf("%w: %s: %w %s", ErrNoPython, command, err, bytes.TrimSpace(said.Bytes()[:min(said.Len(), 400)]))
	}
	var p Python
	if err := json.Unmarshal(out, &p); err != nil {
		return Python{}, fmt.Errorf("%w: %s: %w", ErrNoPython, command, err)
	}
	p.Missing = slices.DeleteFunc(p.Missing, func(m string) bool { return m == "numpy" })
	switch {
	case p.Implementation != "cpython" || p.Version[0] != 3 || p.Version[1] < 9:
		return Python{}, fmt.Errorf("%w: %s is %s %s, and CPython 3.9 or later is needed", ErrNoPython, command, p.Implementation, p)
	case len(p.Missing) > 0:
		return Python{}, fmt.Errorf("%w: %s has no module %s", ErrNoPython, command, strings.Join(p.Missing, ", "))
	}
	return p, nil
}

// Building begins the name of a folder in which a rootfs is being made.
const Building = "rootfs-building-"

// Ensure returns the folder of the rootfs of a Python below a cache folder, and
// makes it if it is not there. progress is told what is done.
func Ensure(ctx context.Context, cache string, p Python, progress func(string)) (string, error) {
	name, err := p.key()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "rootfs-"+p.String()+"-"+name)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(cache, Building)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	progress("copying Python " + p.String() + " of " + p.Executable)
	if err := p.copyTo(building); err != nil {
		return "", fmt.Errorf("rootfs: %w", err)
	}
	progress("compiling its standard library")
	if err := p.compile(ctx, building); err != nil {
		return "", err
	}
	if err := os.Chmod(building, 0o755); err != nil {
		return "", err
	}
	// Another worker may have made the same one meanwhile.
	if err := os.Rename(building, folder); err != nil {
		if _, there := os.Stat(folder); there == nil {
			return folder, nil
		}
		return "", err
	}
	return folder, nil
}

// key tells rootfs apart: another interpreter, another shim, another way to make it.
func (p Python) key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, format, p.Version, p.Stdlib, p.LibDir, p.Numpy, Environment())
	for _, file := range p.Mapped {
		about, err := os.Stat(file)
		if err != nil {
			return "", fmt.Errorf("rootfs: %w", err)
		}
		fmt.Fprintln(h, file, about.Size(), about.ModTime().UnixNano())
	}
	err := fs.WalkDir(shim.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := shim.Files.ReadFile(path)
		fmt.Fprintf(h, "%s %d %s\n", path, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

// library is the folder of the standard library inside.
func (p Python) library() string {
	return filepath.Join("/usr", p.LibDir, "python"+p.Minor())
}

func (p Python) copyTo(root string) error {
	// Mount points and what a C library looks for.
	for _, dir := range []string{"tmp", "work", "proc", "sys", "dev", "etc", "px", Libraries} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{Executable: p.Executable}
	library := p.library()
	numpy := ""
	if p.Numpy != "" {
		numpy = filepath.Dir(p.Numpy)
	}
	dynload := filepath.Join(p.Stdlib, "lib-dynload")
	for _, file := range p.Mapped {
		switch {
		case file == p.Executable:
		case strings.HasPrefix(file, dynload+"/"):
			files[filepath.Join(library, "lib-dynload", filepath.Base(file))] = file
		case numpy != "" && strings.HasPrefix(file, p.Numpy+"/"): // copied with its package
		default:
			name, err := soname(file)
			if err != nil {
				return err
			}
			files[filepath.Join(Libraries, name)] = file
		}
	}
	// The kernel, here gVisor's, opens the loader by the path in the executable.
	loader, err := interpreter(p.Executable)
	if err != nil {
		return err
	}
	if loader != "" {
		if files[loader], err = filepath.EvalSymlinks(loader); err != nil {
			return err
		}
	}
	// glibc opens this one by name when a thread ends.
	for _, dir := range []string{"/lib", "/usr/lib", "/usr/lib64", "/lib64"} {
		found, _ := filepath.Glob(filepath.Join(dir, "*", "libgcc_s.so.1"))
		found = append(found, filepath.Join(dir, "libgcc_s.so.1"))
		for _, file := range found {
			if sameMachine(file, p.Executable) {
				files[filepath.Join(Libraries, "libgcc_s.so.1")] = file
			}
		}
	}
	for inside, file := range files {
		if err := copyFile(filepath.Join(root, inside), file, 0o755); err != nil {
			return err
		}
	}
	if err := copyTree(filepath.Join(root, library), p.Stdlib, func(rel string, d fs.DirEntry) bool {
		if d.IsDir() {
			return !slices.Contains(leftOut, d.Name()) && !strings.HasPrefix(d.Name(), "config-")
		}
		return strings.HasSuffix(rel, ".py") && d.Name() != "sitecustomize.py" && d.Name() != "usercustomize.py"
	}); err != nil {
		return err
	}
	if numpy != "" {
		for _, name := range []string{"numpy", "numpy.libs"} {
			if _, err := os.Stat(filepath.Join(numpy, name)); err != nil {
				continue
			}
			if err := copyTree(filepath.Join(root, library, name), filepath.Join(numpy, name), func(rel string, d fs.DirEntry) bool {
				return !d.IsDir() || !slices.Contains([]string{"__pycache__", "tests", "f2py", "distutils"}, d.Name())
			}); err != nil {
				return err
			}
		}
	}
	return fs.WalkDir(shim.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := shim.Files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(root, "px", path), text, 0o644)
	})
}

// compile writes bytecode beside every module: the root is read-only later, and a
// sandbox that compiled would take seconds to warm. Bytecode that is not checked
// against its source stays valid whatever the times of the files.
func (p Python) compile(ctx context.Context, root string) error {
	for _, dir := range []string{p.library(), "/px"} {
		cmd := exec.CommandContext(ctx, p.Executable, "-I", "-S", "-m", "compileall", "-q", "-q",
			"--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/", filepath.Join(root, dir))
		// Files that are not Python 3 (templates) fail to compile, and are no loss.
		var exit *exec.ExitError
		if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, &exit) {
			return fmt.Errorf("rootfs: compile: %w %s", err, out)
		}
	}
	return nil
}

// soname is the name by which others ask for a shared library.
func soname(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) == 1 && filepath.Base(names[0]) == names[0] {
		return names[0], nil
	}
	return filepath.Base(file), nil
}

func sameMachine(a, b string) bool {
	x, err := elf.Open(a)
	if err != nil {
		return false
	}
	defer x.Close()
	y, err := elf.Open(b)
	if err != nil {
		return false
	}
	defer y.Close()
	return x.Machine == y.Machine && x.Class == y.Class
}

// interpreter is the loader that an executable names, or "" for a static one.
func interpreter(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_INTERP {
			text, err := io.ReadAll(prog.Open())
			return string(bytes.TrimRight(text, "\x00")), err
		}
	}
	return "", nil
}

func copyTree(to, from string, keep func(rel string, d fs.DirEntry) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if rel != "." && !keep(rel, d) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		return copyFile(filepath.Join(to, rel), path, 0o644)
	})
}

// copyFile follows links: what is inside must not point outside. A dangling one is
// left out.
func copyFile(to, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if about, err := in.Stat(); err != nil || !about.Mode().IsRegular() {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
