package packaging_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/outcome"
)

func files(of map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range of {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

type entry struct {
	name, text string
	mode       fs.FileMode
}

func zipped(t *testing.T, all ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range all {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(e.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func rules(findings outcome.Findings) (out []string) {
	for _, f := range findings {
		rule, _ := f.Params["rule"].(string)
		if rule == "" {
			rule = fmt.Sprint(f.Params["of"])
		}
		out = append(out, f.Path+" "+rule)
	}
	slices.Sort(out)
	return out
}

var simple = map[string]string{"manifest.json": `{"b": 1, "a": 2}`, "src/x.py": "x = 1\n", "src/lib/y.py": "y = 1\n"}

func TestAFolderAndAZipOfIt(t *testing.T) {
	folder, findings := packaging.Files(files(simple))
	if findings != nil {
		t.Fatal(findings)
	}
	z, findings := packaging.Zip(zipped(t, entry{name: "src/"}, entry{name: "src/lib/y.py", text: "y = 1\n"}, entry{name: "manifest.json", text: `{"a":2,"b":1}`}, entry{name: "src/x.py", text: "x = 1\n"}))
	if findings != nil {
		t.Fatal(findings)
	}
	a, err := folder.Digest()
	b, err2 := z.Digest()
	if a != b || err != nil || err2 != nil || !strings.HasPrefix(a, "sha256:") {
		t.Errorf("%s and %s", a, b)
	}
	if !slices.Equal(folder.Paths(), []string{"src/lib/y.py", "src/x.py"}) {
		t.Error(folder.Paths())
	}
	seen := map[string]bool{a: true}
	for name, text := range map[string]string{"manifest.json": `{"a":2,"b":3}`, "src/x.py": "x = 2\n", "src/z.py": ""} {
		other := map[string]string{}
		for k, v := range simple {
			other[k] = v
		}
		other[name] = text
		p, findings := packaging.Files(files(other))
		digest, err := p.Digest()
		if findings != nil || err != nil || seen[digest] {
			t.Errorf("a change of %s: %v %v", name, findings, err)
		}
		seen[digest] = true
	}
	text, err := folder.Stored()
	if err != nil {
		t.Fatal(err)
	}
	again, err := packaging.ReadStored(text)
	if c, _ := again.Digest(); c != a || err != nil {
		t.Error(c, err)
	}
}

// A developer's own files are no part of a package; others are not carried along.
func TestWhatIsNoPartOfAPackageIsRefusedByName(t *testing.T) {
	with := func(name, text string) fstest.MapFS {
		f := files(simple)
		f[name] = &fstest.MapFile{Data: []byte(text)}
		return f
	}
	for name, c := range map[string]struct {
		fs   fstest.MapFS
		want []string
	}{
		"a developer's own":         {with(".git/config", "x"), nil},
		"a file with a dot":         {with(".DS_Store", "x"), nil},
		"compiled":                  {with("src/__pycache__/x.pyc", "x"), nil},
		"a binary":                  {with("src/x.so", "x"), []string{"/src~1x.so file_of_package"}},
		"a text":                    {with("README.md", "x"), []string{"/README.md file_of_package"}},
		"a source elsewhere":        {with("lib/x.py", "x"), []string{"/lib~1x.py file_of_package"}},
		"a source with a hyphen":    {with("src/a-b.py", "x"), []string{"/src~1a-b.py file_of_package"}},
		"a source that is no UTF-8": {with("src/z.py", "\xff"), []string{"/src~1z.py utf8"}},
		"a large source":            {with("src/z.py", strings.Repeat("x", 256<<10+1)), []string{"/src~1z.py bytes"}},
		"no manifest":               {files(map[string]string{"src/x.py": ""}), []string{"/manifest.json required"}},
		"a manifest that is none":   {files(map[string]string{"manifest.json": `{"a":1,"a":2}`}), []string{"/manifest.json json"}},
		"a signature that is none":  {with("signature.json", `{"publicKey":"x"}`), []string{"/signature.json/signature required"}},
		"a signature of nobody":     {with("signature.json", `{"publicKey":"AAAA","signature":"AAAA"}`), []string{"/signature.json signature"}},
		"two faults": {func() fstest.MapFS {
			f := with("a.txt", "")
			f["src/z.py"] = &fstest.MapFile{Data: []byte("\xff")}
			return f
		}(), []string{"/a.txt file_of_package", "/src~1z.py utf8"}},
	} {
		if _, findings := packaging.Files(c.fs); !slices.Equal(rules(findings), c.want) {
			t.Errorf("%s: %v, want %v", name, rules(findings), c.want)
		}
	}
	dir := t.TempDir()
	for name, text := range simple {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "src/p.py")); err != nil {
		t.Fatal(err)
	}
	if _, findings := packaging.Files(os.DirFS(dir)); !slices.Equal(rules(findings), []string{"/src~1p.py regular_file"}) {
		t.Error(rules(findings))
	}
}

func TestAZipThatIsHostile(t *testing.T) {
	manifest := entry{name: "manifest.json", text: "{}"}
	for name, c := range map[string]struct {
		zip  []byte
		want string
	}{
		"no zip":                  {[]byte("PK"), " zip"},
		"a path that leads out":   {zipped(t, manifest, entry{name: "../src/x.py"}), "/..~1src~1x.py file_of_package"},
		"an absolute path":        {zipped(t, manifest, entry{name: "/src/x.py"}), "/~1src~1x.py file_of_package"},
		"a backslash":             {zipped(t, manifest, entry{name: `src\x.py`}), `/src\x.py file_of_package`},
		"a name that is no UTF-8": {zipped(t, manifest, entry{name: "src/\xff.py"}), " file_of_package"},
		"a link of such a name":   {zipped(t, manifest, entry{"src/\xff.py", "/etc/passwd", fs.ModeSymlink | 0o777}), " regular_file"},
		"a long name":             {zipped(t, manifest, entry{name: "src/" + strings.Repeat("x", 60_000) + ".py"}), " file_of_package"},
		"a long name of a link":   {zipped(t, manifest, entry{"src/" + strings.Repeat("x", 60_000) + ".py", "x", fs.ModeSymlink | 0o777}), " regular_file"},
		"a link":                  {zipped(t, manifest, entry{"src/x.py", "/etc/passwd", fs.ModeSymlink | 0o777}), "/src~1x.py regular_file"},
		"a name twice":            {zipped(t, manifest, entry{name: "src/x.py", text: "a"}, entry{name: "src/x.py", text: "b"}), "/src~1x.py unique"},
		"a bomb":                  {zipped(t, manifest, entry{name: "src/x.py", text: strings.Repeat("0", 20<<20)}), "/src~1x.py bytes"},
		"many small ones":         {zipped(t, append([]entry{manifest}, many(65)...)...), " files"},
		"much in many":            {zipped(t, append([]entry{manifest}, large(13)...)...), " bytes"},
		"a zip that is large":     {make([]byte, packaging.MaxAll+1), " bytes"},
	} {
		_, findings := packaging.Zip(c.zip)
		if !slices.Contains(rules(findings), c.want) {
			t.Errorf("%s: %v, want %s", name, rules(findings), c.want)
		}
		if _, err := canon.Encode(findings); err != nil {
			t.Errorf("%s: no answer can hold the findings: %v", name, err)
		}
	}
	if _, findings := packaging.Zip(zipped(t, append([]entry{manifest}, many(64)...)...)); findings != nil {
		t.Error(findings)
	}
}

// A developer is told where the comma is.
func TestAManifestThatIsNoJSONIsToldByItsLine(t *testing.T) {
	for text, want := range map[string]string{"{\n\"a\": 1,\n}": "2 malformed", "{\n\"a\": 1,\n\"a\": 2}": "3 duplicate name", "": "1 empty", "\n\n{\"a\":": "3 ends too early"} {
		_, findings := packaging.Files(files(map[string]string{"manifest.json": text}))
		if len(findings) != 1 || fmt.Sprint(findings[0].Params["line"], " ", findings[0].Params["reason"]) != want {
			t.Errorf("%q: %v, want %s", text, findings, want)
		}
	}
	// What was cut is not judged.
	_, findings := packaging.Files(files(map[string]string{"manifest.json": strings.Repeat(" ", packaging.MaxAll+1)}))
	if !slices.Equal(rules(findings), []string{"/manifest.json bytes"}) {
		t.Error(rules(findings))
	}
}

func many(n int) (out []entry) {
	for i := range n {
		out = append(out, entry{name: fmt.Sprintf("src/f%d.py", i)})
	}
	return out
}

func large(n int) (out []entry) {
	for i := range n {
		out = append(out, entry{name: fmt.Sprintf("src/f%d.py", i), text: strings.Repeat(" ", 256<<10)})
	}
	return out
}

func TestASignatureIsOfOnePackage(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, findings := packaging.Files(files(simple))
	if findings != nil {
		t.Fatal(findings)
	}
	if publisher, ok := p.Publisher(); publisher != "" || !ok {
		t.Error(publisher, ok)
	}
	signed, err := p.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(signed.Signature)
	if err != nil {
		t.Fatal(err)
	}
	with := func(more map[string]string) (packaging.Package, outcome.Findings) {
		f := files(simple)
		f["signature.json"] = &fstest.MapFile{Data: text}
		for name, text := range more {
			f[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return packaging.Files(f)
	}
	read, findings := with(nil)
	if publisher, ok := read.Publisher(); findings != nil || publisher == "" || !ok {
		t.Error(findings, publisher, ok)
	}
	a, _ := p.Digest()
	if b, _ := read.Digest(); a != b {
		t.Error("a signature changes what it signs")
	}
	if _, findings := with(map[string]string{"src/x.py": "x = 3\n"}); !slices.Equal(rules(findings), []string{"/signature.json signature"}) {
		t.Error(rules(findings))
	}
	stored, err := read.Stored()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := packaging.ReadStored(stored); err != nil || again.Signature == nil {
		t.Error(err)
	}
}

func FuzzZip(f *testing.F) {
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, findings := packaging.Zip(text)
		if findings == nil {
			if _, err := p.Digest(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A key for which anybody can write a signature says nothing of who published a package.
//
// covers: C4
func TestAKeyThatIsAnybodysIsNobodys(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	for _, y := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000", "0000000000000000000000000000000000000000000000000000000000000080",
		"0100000000000000000000000000000000000000000000000000000000000000", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		key, err := hex.DecodeString(y)
		if err != nil {
			t.Fatal(err)
		}
		// A signature with S = 0 fits each package whose digest meets the order of the
		// point: one in four at worst.
		for n := range 40 {
			for _, r := range [][]byte{key, append([]byte{1}, make([]byte, 31)...)} {
				p := packaging.Package{Manifest: fmt.Appendf(nil, "%d", n), Signature: &packaging.Signature{PublicKey: encode(key), Signature: encode(append(slices.Clone(r), make([]byte, 32)...))}}
				if _, ok := p.Publisher(); ok {
					t.Fatal(y, n)
				}
			}
		}
	}
}
