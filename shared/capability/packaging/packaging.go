// Package packaging reads a plugin package, which is a folder or a zip, and gives it its
// one digest: manifest.json, src/*.py, and a signature.json over the digest where its
// publisher signed it. Both forms of one package have one digest.
//
// What else is in it is refused by name: nothing of a package is carried along unread.
// The package is stored in one form of its own (Stored), so that what runs is what was
// judged.
package packaging

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// The limits of one package. The limit itself is allowed.
const (
	MaxFiles  = 64        // Python files
	MaxSource = 256 << 10 // bytes of one
	MaxAll    = 3 << 20   // bytes of all files together, and of a zip
)

// SignatureContext separates these signatures from any other use of a key.
const SignatureContext = "pxhost plugin package v1"

// The names of files.
const (
	ManifestName  = "manifest.json"
	SignatureName = "signature.json"
)

// maxName is the longest name of a file in bytes.
const maxName = 200

// sourceName is the name of a Python file of a package.
var sourceName = regexp.MustCompile(`^src/[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*\.py$`)

// A Package is what a package holds.
type Package struct {
	Manifest  []byte            // canonical
	Sources   map[string]string // by path
	Signature *Signature        // nil where nobody signed it
}

// A Signature says who published a package.
type Signature struct {
	PublicKey string `json:"publicKey" schema:"minLength=1,maxLength=200"` // Ed25519, base64
	Signature string `json:"signature" schema:"minLength=1,maxLength=200"` // over SignatureContext and the digest, base64
}

// Digest is the digest of a package: of its canonical manifest and of each source.
func (p Package) Digest() (string, error) {
	files := map[string]string{}
	for name, text := range p.Sources {
		files[name] = canon.Digest([]byte(text))
	}
	return canon.DigestOf(map[string]any{"manifest": canon.Digest(p.Manifest), "files": files})
}

// Paths are the paths of the sources, in order.
func (p Package) Paths() []string { return slices.Sorted(maps.Keys(p.Sources)) }

// Publisher is the digest of the key that signed the package, "" where nobody did, and
// false where the signature is not one of this package.
func (p Package) Publisher() (string, bool) {
	if p.Signature == nil {
		return "", true
	}
	key, err := base64.StdEncoding.Strict().DecodeString(p.Signature.PublicKey)
	signature, err2 := base64.StdEncoding.Strict().DecodeString(p.Signature.Signature)
	digest, err3 := p.Digest()
	if errors.Join(err, err2, err3) != nil || len(key) != ed25519.PublicKeySize || anybodys(key) || !ed25519.Verify(key, []byte(SignatureContext+"\n"+digest), signature) {
		return "", false
	}
	return canon.Digest(key), true
}

// anybodys reports whether a public key is one of the few that have no private one: points
// of a small order, for which anybody can write a signature of anything. It is refused,
// since it says nothing of who published a package.
func anybodys(key []byte) bool {
	y := slices.Clone(key)
	y[31] &= 0x7f // the sign of x
	return slices.Contains(smallOrder, hex.EncodeToString(y))
}

// smallOrder are the encodings of y of the points of order 1, 2, 4 and 8, those among them
// that are not reduced included.
var smallOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
}

// Sign signs a package.
func (p Package) Sign(key ed25519.PrivateKey) (Package, error) {
	digest, err := p.Digest()
	if err != nil {
		return p, err
	}
	encode := base64.StdEncoding.EncodeToString
	p.Signature = &Signature{encode(key.Public().(ed25519.PublicKey)), encode(ed25519.Sign(key, []byte(SignatureContext+"\n"+digest)))}
	return p, nil
}

// reader collects files.
type reader struct {
	findings outcome.Findings
	files    map[string][]byte
	all      int
}

// at is the path of findings about a file: the package is one object of files. A name
// that cannot be repeated in an answer is told as the whole package's.
func at(name string) string {
	if !utf8.ValidString(name) || len(name) > maxName {
		return ""
	}
	return "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// add takes one file; read gives it to its end.
func (r *reader) add(name string, read func(most int64) ([]byte, error)) {
	most := MaxSource
	switch {
	case name == ManifestName:
		most = MaxAll
	case name == SignatureName:
		most = 4 << 10
	case len(name) > maxName || !sourceName.MatchString(name):
		r.findings.Add(outcome.SchemaInvalid, at(name), outcome.Params{"rule": "file_of_package"})
		return
	}
	if _, twice := r.files[name]; twice {
		r.findings.Add(outcome.SchemaInvalid, at(name), outcome.Params{"rule": "unique"})
		return
	}
	text, err := read(int64(min(most, MaxAll-r.all)) + 1)
	switch {
	case err != nil:
		r.findings.Add(outcome.SchemaInvalid, at(name), outcome.Params{"rule": "readable"})
	case len(text) > most:
		r.findings.Add(outcome.LimitExceeded, at(name), outcome.Params{"limit": most, "observed": len(text), "of": "bytes"})
	case r.all+len(text) > MaxAll:
		r.findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxAll, "observed": r.all + len(text), "of": "bytes"})
	}
	r.all += len(text)
	r.files[name] = text
}

// Files reads a package of a file system. Folders that begin with a dot, and
// __pycache__, are a developer's own and no part of it.
func Files(fsys fs.FS) (Package, outcome.Findings) {
	r := &reader{files: map[string][]byte{}}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "__pycache__"):
			return fs.SkipDir
		case entry.IsDir(), strings.HasPrefix(base, "."):
			return nil
		case !entry.Type().IsRegular():
			r.findings.Add(outcome.SchemaInvalid, at(name), outcome.Params{"rule": "regular_file"})
			return nil
		}
		if len(r.files) > MaxFiles+2 || r.all > MaxAll {
			return fs.SkipAll
		}
		r.add(name, func(most int64) ([]byte, error) {
			f, err := fsys.Open(name)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return io.ReadAll(io.LimitReader(f, most))
		})
		return nil
	})
	if err != nil {
		r.findings.Add(outcome.SchemaInvalid, "", outcome.Params{"rule": "readable"})
	}
	return r.done()
}

// Texts reads a package of its files' texts, by path.
func Texts(files map[string]string) (Package, outcome.Findings) {
	r := &reader{files: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(r.files) > MaxFiles+2 || r.all > MaxAll {
			break
		}
		r.add(name, func(most int64) ([]byte, error) {
			text := files[name]
			return []byte(text[:min(int64(len(text)), most)]), nil
		})
	}
	return r.done()
}

// Zip reads a package of a zip.
func Zip(text []byte) (Package, outcome.Findings) {
	r := &reader{files: map[string][]byte{}}
	if len(text) > MaxAll {
		r.findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxAll, "observed": len(text), "of": "bytes"})
		return Package{}, r.findings
	}
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		r.findings.Add(outcome.SchemaInvalid, "", outcome.Params{"rule": "zip"})
		return Package{}, r.findings
	}
	for _, f := range archive.File {
		switch {
		case strings.HasSuffix(f.Name, "/") && f.UncompressedSize64 == 0:
			continue // a folder
		case !f.Mode().IsRegular():
			r.findings.Add(outcome.SchemaInvalid, at(f.Name), outcome.Params{"rule": "regular_file"})
			continue
		}
		if len(r.files) > MaxFiles+2 || r.all > MaxAll {
			break
		}
		r.add(f.Name, func(most int64) ([]byte, error) {
			in, err := f.Open()
			if err != nil {
				return nil, err
			}
			defer in.Close()
			return io.ReadAll(io.LimitReader(in, most))
		})
	}
	return r.done()
}

// done makes a package of the files. With findings it is what could be read, to be judged
// further and never to be used.
func (r *reader) done() (Package, outcome.Findings) {
	p := Package{Sources: map[string]string{}}
	manifest, there := r.files[ManifestName]
	if !there && r.findings == nil {
		r.findings.Add(outcome.SchemaInvalid, at(ManifestName), outcome.Params{"rule": "required"})
	}
	if there && r.all <= MaxAll { // else it may have been cut
		text, err := canon.Canonicalize(manifest)
		if err != nil {
			text = nil
			params := outcome.Params{"rule": "json"}
			if wrong, ok := errors.AsType[*canon.SyntaxError](err); ok {
				params["reason"], params["line"] = wrong.Reason, 1+bytes.Count(manifest[:min(wrong.Offset, int64(len(manifest)))], []byte("\n"))
			}
			r.findings.Add(outcome.SchemaInvalid, at(ManifestName), params)
		}
		p.Manifest = text
	}
	if text, there := r.files[SignatureName]; there {
		p.Signature = new(Signature)
		r.findings = append(r.findings, schema.DecodeAt(text, at(SignatureName), p.Signature)...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if name == ManifestName || name == SignatureName {
			continue
		}
		if !utf8.Valid(r.files[name]) {
			r.findings.Add(outcome.SchemaInvalid, at(name), outcome.Params{"rule": "utf8"})
		}
		p.Sources[name] = string(r.files[name])
	}
	if len(p.Sources) > MaxFiles {
		r.findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxFiles, "observed": len(p.Sources), "of": "files"})
	}
	if r.findings == nil {
		if _, ok := p.Publisher(); !ok {
			r.findings.Add(outcome.SchemaInvalid, at(SignatureName), outcome.Params{"rule": "signature"})
		}
	}
	return p, r.findings
}

// stored is a package as one canonical JSON text.
type stored struct {
	V         int               `json:"v"`
	Manifest  canon.Raw         `json:"manifest"`
	Sources   map[string]string `json:"sources"`
	Signature *Signature        `json:"signature,omitzero"`
}

// Stored returns the one form in which a package is kept.
func (p Package) Stored() ([]byte, error) {
	return canon.Encode(stored{1, p.Manifest, p.Sources, p.Signature})
}

// ReadStored reads it. What is stored was judged before.
func ReadStored(text []byte) (Package, error) {
	var s stored
	if err := json.Unmarshal(text, &s, json.RejectUnknownMembers(true)); err != nil || s.V != 1 || s.Sources == nil {
		return Package{}, fmt.Errorf("packaging: what is stored is no package: %w", err)
	}
	return Package{s.Manifest, s.Sources, s.Signature}, nil
}
