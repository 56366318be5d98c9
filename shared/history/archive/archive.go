// Package archive is the file form of a Space's whole history: every commit, every
// catalog node that a commit reaches, and every saved document, so that the chain
// can be verified where there is no store and no network (P11).
//
// An archive is lines, each canonical JSON and a line feed:
//
//	{"commit":HEAD,"format":"pxhistory/1","space":"workspace/project","version":N}
//	{"body":BASE64,"ref":"sha256:…"}                  once an object, in any order
//	{"commits":…,"digest":"sha256:…","objects":…}     digest of all bytes before this line
//
// Every byte counts: a line has one form, an object has the digest by which it is
// named, the last line has that of all before it, and nothing follows. The digest
// of the last line finds what was damaged; that the chain is what it was, the
// commits say themselves, and the head's Ref stands for all of them. Who keeps that
// Ref elsewhere (every apply answers it as commitRef) also finds an archive that
// somebody made anew.
//
// The package knows no store and no command line, and of documents only by which
// member they name the Python source that they were read from.
package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
)

// Format is the version of the file form.
const Format = "pxhistory/1"

// maxLine bounds a line: an object of 48 MiB, more than any that is stored.
const maxLine = 64 << 20

// A Header is the first line.
type Header struct {
	Commit  history.Ref   `json:"commit,omitzero"` // the head; none of a Space without commits
	Format  string        `json:"format"`
	Space   history.Space `json:"space"`
	Version int64         `json:"version"` // of the head, which is the number of commits
}

type trailer struct {
	Commits int    `json:"commits"`
	Digest  string `json:"digest"`
	Objects int    `json:"objects"`
}

const (
	beforeBody = `{"body":"`
	beforeRef  = `","ref":"`
	afterRef   = "\"}\n"
)

// Progress is told now and then what is done; it may be nil.
type Progress func(objects int, bytes int64)

// Export writes the archive of the history that ends in head. It verifies what it
// writes, and fails where the store's history is not in order. Of the objects it
// holds a few at a time in memory.
func Export(ctx context.Context, objects history.Objects, space history.Space, head history.Head, out io.Writer, progress Progress) (history.Verified, error) {
	w := &writer{out: bufio.NewWriterSize(out, 1<<20), digest: sha256.New()}
	if err := w.line(Header{head.Commit, Format, space, head.Version}); err != nil {
		return history.Verified{}, err
	}
	written := map[history.Ref]bool{}
	done, err := history.Verifier{Read: func(refs ...history.Ref) ([][]byte, error) {
		bodies, err := objects.Get(ctx, space, refs...)
		if err != nil {
			return nil, err
		}
		for i, ref := range refs {
			if written[ref] {
				continue
			}
			written[ref] = true
			if err := w.object(ref, bodies[i]); err != nil {
				return nil, err
			}
		}
		if progress != nil {
			progress(len(written), w.bytes)
		}
		return bodies, nil
	}, Follow: sources}.Verify(head.Commit)
	if err == nil && int64(done.Commits) != head.Version {
		err = fmt.Errorf("%w: the head has version %d after %d commits", history.ErrCorrupt, head.Version, done.Commits)
	}
	if err != nil {
		return done, err
	}
	if err := w.line(trailer{done.Commits, w.sum(), done.Objects}); err != nil {
		return done, err
	}
	return done, w.out.Flush()
}

// sources names the source of a document, which is as much a part of what was saved
// as the document: a Function's, or that of an SDK-linked Flow.
func sources(_ string, _ history.Entry, revision []byte) ([]history.Ref, error) {
	var document struct {
		SourceDigest history.Ref `json:"sourceDigest"`
		Authoring    struct {
			SourceDigest history.Ref `json:"sourceDigest"`
		} `json:"authoring"`
	}
	if json.Unmarshal(revision, &document) != nil {
		return nil, nil // no object of this form: it names none
	}
	if ref := cmp.Or(document.SourceDigest, document.Authoring.SourceDigest); ref != "" {
		return []history.Ref{ref}, nil
	}
	return nil, nil
}

type writer struct {
	out    *bufio.Writer
	digest hash.Hash
	bytes  int64
}

func (w *writer) sum() string { return "sha256:" + hex.EncodeToString(w.digest.Sum(nil)) }

func (w *writer) line(v any) error {
	text, err := canon.Encode(v)
	if err != nil {
		return err
	}
	return w.write(append(text, '\n'))
}

func (w *writer) object(ref history.Ref, body []byte) error {
	line := make([]byte, 0, base64.StdEncoding.EncodedLen(len(body))+128)
	line = base64.StdEncoding.AppendEncode(append(line, beforeBody...), body)
	return w.write(append(append(append(line, beforeRef...), ref...), afterRef...))
}

func (w *writer) write(line []byte) error {
	w.digest.Write(line)
	w.bytes += int64(len(line))
	_, err := w.out.Write(line)
	return err
}

// A Report is what was verified.
type Report struct {
	Header
	history.Verified
	// Beyond is how many commits the archive has after the one that was expected to
	// be its head.
	Beyond int
}

// ErrOtherHead is returned for an archive that is in order and does not end in the
// commit that was expected. The Report tells how many commits it goes beyond it, 0
// where that commit is not in its chain at all.
var ErrOtherHead = errors.New("archive: it ends in another commit")

// Verify checks an archive, and nothing but it: first every line, then the chain of
// the commits and what they did to the catalog, and that no object is there which
// the chain does not reach. expected is the commit in which it must end, "" for
// whatever its first line says. The error wraps history.ErrCorrupt, or is
// ErrOtherHead, or tells of reading. In memory it holds where each object stands
// and some of the catalog.
func Verify(file io.ReaderAt, size int64, expected history.Ref, progress Progress) (Report, error) {
	r := &reader{file: file, at: map[[sha256.Size]byte]place{}}
	header, end, err := r.scan(size, progress)
	if err != nil {
		return Report{}, err
	}
	report := Report{Header: header}
	if report.Verified, err = (history.Verifier{Read: r.read, Follow: sources}).Verify(header.Commit); err != nil {
		return report, err
	}
	switch {
	case int64(report.Commits) != header.Version || report.Commits != end.Commits:
		err = fmt.Errorf("%w: %d commits where %d are told", history.ErrCorrupt, report.Commits, header.Version)
	case report.Objects != len(r.at) || report.Objects != end.Objects:
		err = fmt.Errorf("%w: the commits reach %d of %d objects, and %d are told", history.ErrCorrupt, report.Objects, len(r.at), end.Objects)
	case expected != "" && expected != header.Commit:
		report.Beyond, err = r.beyond(header.Commit, expected)
		if err == nil {
			err = ErrOtherHead
		}
	}
	return report, err
}

// A place is where the base64 of an object stands.
type place struct {
	offset int64
	length int
}

type reader struct {
	file io.ReaderAt
	at   map[[sha256.Size]byte]place
}

func corrupt(offset int64, what string) error {
	return fmt.Errorf("%w: at byte %d: %s", history.ErrCorrupt, offset, what)
}

// scan reads all lines once, in order.
func (r *reader) scan(size int64, progress Progress) (Header, trailer, error) {
	var header Header
	in := bufio.NewReaderSize(io.NewSectionReader(r.file, 0, size), int(min(size, 1<<20)))
	digest, offset := sha256.New(), int64(0)
	for n := 0; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return header, trailer{}, corrupt(offset, "the archive ends before its last line")
		}
		if errors.Is(err, errLong) {
			return header, trailer{}, corrupt(offset, "a line is too long")
		}
		if err != nil {
			return header, trailer{}, err
		}
		switch {
		case n == 0:
			if exactly(line, &header) != nil || header.Format != Format || (header.Commit == "") != (header.Version == 0) {
				return header, trailer{}, corrupt(0, "this is no first line of "+Format)
			}
		case bytes.HasPrefix(line, []byte(beforeBody)):
			if err := r.object(line, offset); err != nil {
				return header, trailer{}, err
			}
			if progress != nil {
				progress(len(r.at), offset)
			}
		default:
			var end trailer
			if exactly(line, &end) != nil {
				return header, end, corrupt(offset, "neither an object nor the last line")
			}
			if end.Digest != "sha256:"+hex.EncodeToString(digest.Sum(nil)) {
				return header, end, corrupt(offset, "the bytes before the last line have another digest")
			}
			if offset+int64(len(line)) != size {
				return header, end, corrupt(offset+int64(len(line)), "something follows the last line")
			}
			return header, end, nil
		}
		digest.Write(line)
		offset += int64(len(line))
	}
}

var errLong = errors.New("archive: a line is too long")

// readLine returns a line with its line feed. A last line without one is no line.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err // read anew before the next is
	}
	whole := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(whole) > maxLine {
			return nil, errLong
		}
		line, err = in.ReadSlice('\n')
		whole = append(whole, line...)
	}
	return whole, err
}

// exactly reads a line of which encoding gives the same bytes again.
func exactly(line []byte, into any) error {
	if err := json.Unmarshal(line, into, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	again, err := canon.Encode(into)
	if err == nil && string(line) != string(again)+"\n" {
		err = errors.New("archive: not in canonical form")
	}
	return err
}

// object notes where an object stands, after checking its line.
func (r *reader) object(line []byte, offset int64) error {
	text, rest, ok := strings.Cut(string(line[len(beforeBody):]), beforeRef)
	ref, ended := strings.CutSuffix(rest, afterRef)
	if !ok || !ended {
		return corrupt(offset, "an object line has another form")
	}
	body, err := base64.StdEncoding.Strict().DecodeString(text)
	// The decoder skips carriage returns, which would be a second form.
	if err != nil || strings.Contains(text, "\r") || history.RefOf(body) != history.Ref(ref) {
		return corrupt(offset, "an object has another digest")
	}
	key := sha256.Sum256(body)
	if _, twice := r.at[key]; twice {
		return corrupt(offset, "an object stands twice")
	}
	r.at[key] = place{offset + int64(len(beforeBody)), len(text)}
	return nil
}

// read returns objects where they stand.
func (r *reader) read(refs ...history.Ref) ([][]byte, error) {
	bodies := make([][]byte, len(refs))
	for i, ref := range refs {
		var key [sha256.Size]byte
		digits, ok := strings.CutPrefix(string(ref), "sha256:")
		if n, err := hex.Decode(key[:], []byte(digits[:min(len(digits), 2*len(key))])); !ok || err != nil || n != len(key) {
			return nil, fmt.Errorf("%w: %q names no object", history.ErrCorrupt, ref)
		}
		at, ok := r.at[key]
		if !ok {
			return nil, fmt.Errorf("%w: object %s is missing", history.ErrCorrupt, ref)
		}
		text := make([]byte, at.length)
		if _, err := r.file.ReadAt(text, at.offset); err != nil {
			return nil, err
		}
		var err error
		if bodies[i], err = base64.StdEncoding.Strict().AppendDecode(nil, text); err != nil {
			return nil, fmt.Errorf("%w: the archive changes while it is read", history.ErrCorrupt)
		}
	}
	return bodies, nil
}

// beyond counts the commits after one.
func (r *reader) beyond(head, one history.Ref) (int, error) {
	for at, n := head, 0; at != ""; n++ {
		if at == one {
			return n, nil
		}
		bodies, err := r.read(at)
		if err != nil {
			return 0, err
		}
		c, err := history.DecodeCommit(bodies[0])
		if err != nil {
			return 0, err
		}
		at = c.Parent
	}
	return 0, nil
}
