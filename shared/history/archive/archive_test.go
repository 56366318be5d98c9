package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/history"
)

// objects is a store of one Space.
type objects map[history.Ref][]byte

func (o objects) Put(_ context.Context, _ history.Space, bodies ...[]byte) error {
	for _, b := range bodies {
		o[history.RefOf(b)] = b
	}
	return nil
}

func (o objects) Get(_ context.Context, _ history.Space, refs ...history.Ref) ([][]byte, error) {
	bodies := make([][]byte, len(refs))
	for i, ref := range refs {
		var ok bool
		if bodies[i], ok = o[ref]; !ok {
			return nil, history.ErrNotFound
		}
	}
	return bodies, nil
}

const space = history.Space("team/bridge")

// An author makes a history.
type author struct {
	objects objects
	head    history.Head
	entries map[string]history.Entry
}

func newAuthor() *author {
	return &author{objects: objects{}, entries: map[string]history.Entry{}}
}

type fataler interface{ Fatal(...any) }

// commit saves documents by their keys in one commit that lists the first of them,
// listed of all.
func (a *author) commit(t fataler, listed int, documents ...[2]string) {
	ctx := context.Background()
	var edits []history.Change
	commit := history.Commit{Parent: a.head.Commit, Version: a.head.Version + 1, Principal: "https://issuer|engineer", Tool: "pxflow_plan_change",
		ToolContractVersion: "px-mcp/1", CommittedAt: time.Date(2026, 11, 30, 0, 0, int(a.head.Version), 0, time.UTC)}
	for i, d := range documents {
		a.objects.Put(ctx, space, []byte(d[1]))
		entry := history.Entry{RevisionRef: history.RefOf([]byte(d[1]))}
		change := history.RevisedEntry{Key: d[0], Result: &history.Revision{RevisionRef: entry.RevisionRef}}
		if was, ok := a.entries[d[0]]; ok {
			entry.Generation = was.Generation + 1
			change.Base = &history.Revision{RevisionRef: was.RevisionRef, Generation: was.Generation}
			change.Result.Generation = entry.Generation
		}
		a.entries[d[0]] = entry
		text := d[0]
		edits = append(edits, history.Change{Key: d[0], Entry: &entry, Text: &text})
		if i < listed {
			commit.Changes = append(commit.Changes, change)
		}
	}
	var err error
	if commit.Root, err = history.NewCatalog(a.objects, nil).Apply(ctx, space, a.head.Root, edits); err != nil {
		t.Fatal(err)
	}
	ref, body, err := history.EncodeCommit(commit)
	if err != nil {
		t.Fatal(err)
	}
	a.objects.Put(ctx, space, body)
	a.head = history.Head{Commit: ref, Root: commit.Root, Version: commit.Version}
}

func (a *author) export(t fataler) []byte {
	var out bytes.Buffer
	if _, err := Export(context.Background(), a.objects, space, a.head, &out, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func verify(text []byte, expected history.Ref) (Report, error) {
	return Verify(bytes.NewReader(text), int64(len(text)), expected, nil)
}

// forge makes an archive of objects that no exporter would make, with an end that fits.
func forge(t fataler, header Header, all objects, commits, count int) []byte {
	var out bytes.Buffer
	w := &writer{out: bufio.NewWriter(&out), digest: sha256.New()}
	err := w.line(header)
	for ref, body := range all {
		err = errors.Join(err, w.object(ref, body))
	}
	if err = errors.Join(err, w.line(trailer{commits, w.sum(), count}), w.out.Flush()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sampleOf(t fataler) *author {
	a := newAuthor()
	a.commit(t, 2, [2]string{"flow/a", "a1"}, [2]string{"report/r", "r1 가"})
	a.commit(t, 1, [2]string{"flow/a", "a2"})
	a.commit(t, 1, [2]string{"flow/b", "b1"})
	return a
}

// covers: P11
func TestEveryByteOfAnArchiveCounts(t *testing.T) {
	a := sampleOf(t)
	text := a.export(t)
	report, err := verify(text, a.head.Commit)
	if err != nil || report.Commits != 3 || report.Changes != 4 || report.Header != (Header{a.head.Commit, Format, space, 3}) || report.Objects != bytes.Count(text, []byte("\n"))-2 {
		t.Fatalf("%+v %v", report, err)
	}
	if !bytes.Equal(text, a.export(t)) {
		t.Error("the same history twice is not the same archive")
	}
	for i := range text {
		for _, with := range []byte{text[i] ^ 1, text[i] ^ 0x20, text[i] ^ 0x80, '\n', '\r', ' '} {
			if with == text[i] {
				continue
			}
			changed := bytes.Clone(text)
			changed[i] = with
			if _, err := verify(changed, ""); !errors.Is(err, history.ErrCorrupt) {
				t.Fatalf("byte %d may be %q: %v", i, with, err)
			}
		}
		if _, err := verify(text[:i], ""); !errors.Is(err, history.ErrCorrupt) {
			t.Fatalf("it may end at byte %d: %v", i, err)
		}
		if _, err := verify(slices.Delete(bytes.Clone(text), i, i+1), ""); !errors.Is(err, history.ErrCorrupt) {
			t.Fatalf("byte %d may be left out: %v", i, err)
		}
	}
	for _, more := range []string{"\n", "x", "{}\n", strings.SplitAfter(string(text), "\n")[1]} {
		if _, err := verify(append(bytes.Clone(text), more...), ""); !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("%q may follow: %v", more, err)
		}
	}
}

// Of any history: every flip of bits is found, and so is every line that is left
// out, doubled or moved behind the end.
//
// covers: P11
func TestAnyHistoryIsVerifiedAndNoChangeOfItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAuthor()
		keys := rapid.SampledFrom([]string{"flow/a", "flow/b", "flow/c", "report/a"})
		for i := range rapid.IntRange(0, 6).Draw(t, "commits") {
			var documents [][2]string
			for _, key := range rapid.SliceOfNDistinct(keys, 1, 4, rapid.ID).Draw(t, "keys") {
				documents = append(documents, [2]string{key, fmt.Sprint(i, key, rapid.StringN(0, 40, -1).Draw(t, "document"))})
			}
			a.commit(t, len(documents), documents...)
		}
		text := a.export(t)
		report, err := verify(text, a.head.Commit)
		if err != nil || int64(report.Commits) != a.head.Version {
			t.Fatalf("%+v %v", report, err)
		}
		changed := bytes.Clone(text)
		changed[rapid.IntRange(0, len(text)-1).Draw(t, "at")] ^= rapid.ByteRange(1, 255).Draw(t, "bits")
		if _, err := verify(changed, ""); !errors.Is(err, history.ErrCorrupt) {
			t.Fatalf("a changed byte: %v", err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		for name, other := range map[string][]string{
			"left out": slices.Delete(slices.Clone(lines), i, i+1),
			"doubled":  slices.Insert(slices.Clone(lines), i, lines[i]),
		} {
			if _, err := verify([]byte(strings.Join(other, "")), ""); !errors.Is(err, history.ErrCorrupt) {
				t.Fatalf("a line %s: %v", name, err)
			}
		}
	})
}

// What somebody makes anew has an end that fits; the chain does not.
//
// covers: P10, P11
func TestAnArchiveMadeAnewIsFoundByItsChain(t *testing.T) {
	good := sampleOf(t)
	header := Header{good.head.Commit, Format, space, 3}
	text := good.export(t)
	all := func(a *author) (objects, int) {
		reached := objects{}
		for _, line := range strings.Split(string(a.export(t)), "\n") {
			if body, ref, ok := parse(line); ok {
				reached[ref] = body
			}
		}
		return reached, len(reached)
	}
	reached, n := all(good)
	if _, err := verify(forge(t, header, reached, 3, n), good.head.Commit); err != nil {
		t.Fatal(err)
	}
	for name, made := range map[string]func() []byte{
		"an object that nothing reaches": func() []byte {
			more, n := all(good)
			more.Put(t.Context(), space, []byte("x"))
			return forge(t, header, more, 3, n+1)
		},
		"a commit left out": func() []byte {
			less, n := all(good)
			delete(less, good.head.Commit)
			return forge(t, header, less, 3, n-1)
		},
		"another count": func() []byte { return forge(t, header, reached, 3, n+1) },
		"other commits": func() []byte { return forge(t, header, reached, 2, n) },
		"another version": func() []byte {
			return forge(t, Header{header.Commit, Format, space, 4}, reached, 3, n)
		},
		"an entry that changed and that no commit names": func() []byte {
			bad := sampleOf(t)
			bad.commit(t, 1, [2]string{"flow/a", "a3"}, [2]string{"report/r", "r2"})
			forged, n := objects{}, 0
			for ref, body := range bad.objects {
				forged[ref] = body
				n++
			}
			return forge(t, Header{bad.head.Commit, Format, space, 4}, forged, 4, n)
		},
	} {
		if _, err := verify(made(), ""); !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The exporter does not make one of them either.
	bad := sampleOf(t)
	bad.commit(t, 1, [2]string{"flow/a", "a3"}, [2]string{"report/r", "r2"})
	if _, err := Export(t.Context(), bad.objects, space, bad.head, io.Discard, nil); !errors.Is(err, history.ErrCorrupt) {
		t.Errorf("exported: %v", err)
	}

	// A commit that was added, in order: who knows the head is told.
	longer := sampleOf(t)
	longer.commit(t, 1, [2]string{"flow/c", "c1"})
	longer.commit(t, 1, [2]string{"flow/c", "c2"})
	if report, err := verify(longer.export(t), good.head.Commit); !errors.Is(err, ErrOtherHead) || report.Beyond != 2 || report.Version != 5 {
		t.Errorf("%+v %v", report, err)
	}
	if report, err := verify(text, longer.head.Commit); !errors.Is(err, ErrOtherHead) || report.Beyond != 0 {
		t.Errorf("%+v %v", report, err)
	}
	// A Project without commits has an archive, too.
	none := newAuthor()
	if report, err := verify(none.export(t), ""); err != nil || report.Commits != 0 || report.Objects != 0 {
		t.Errorf("%+v %v", report, err)
	}
}

// parse takes an object line apart, with the reader's own eyes.
func parse(line string) ([]byte, history.Ref, bool) {
	r := &reader{file: strings.NewReader(line + "\n"), at: map[[sha256.Size]byte]place{}}
	if !strings.HasPrefix(line, beforeBody) || r.object([]byte(line+"\n"), 0) != nil {
		return nil, "", false
	}
	_, ref, _ := strings.Cut(strings.TrimSuffix(line, `"}`), beforeRef)
	bodies, err := r.read(history.Ref(ref))
	return bodies[0], history.Ref(ref), err == nil
}

// The sources of Functions and of SDK-linked Flows are saved with them, and so are in
// an archive, each version's own.
//
// covers: P11, F4, N5
func TestAnArchiveHoldsTheSourcesThatDocumentsName(t *testing.T) {
	a := newAuthor()
	texts := []string{"import px  # 1\n", "import px  # 2\n", "@px.function()\n"}
	for _, text := range texts {
		a.objects.Put(t.Context(), space, []byte(text))
	}
	ref := func(i int) string { return string(history.RefOf([]byte(texts[i]))) }
	sdk := func(i int) string { return `{"authoring":{"kind":"sdk","sourceDigest":"` + ref(i) + `"}}` }
	a.commit(t, 1, [2]string{"flow/a", sdk(0)})
	a.commit(t, 2, [2]string{"flow/a", sdk(1)}, [2]string{"function/f", `{"functionKey":"f","sourceDigest":"` + ref(2) + `"}`})
	file := a.export(t)
	if _, err := verify(file, a.head.Commit); err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		if n := bytes.Count(file, []byte(ref(i)+`"}`)); n != 1 {
			t.Errorf("source %d stands %d times in the archive", i, n)
		}
		whole := maps.Clone(a.objects)
		delete(a.objects, history.Ref(ref(i)))
		if _, err := Export(t.Context(), a.objects, space, a.head, io.Discard, nil); err == nil {
			t.Errorf("exported without source %d", i)
		}
		var kept objects = maps.Clone(a.objects)
		if _, err := verify(forge(t, Header{a.head.Commit, Format, space, a.head.Version}, kept, 2, len(kept)), ""); err == nil {
			t.Errorf("verified without source %d", i)
		}
		a.objects = whole
	}
}

// Twenty thousand documents are verified from a file with far less memory than the
// file is large.
//
// covers: P11
func TestALargeArchiveIsNotHeldInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short")
	}
	const entries, together, each = 20_000, 1000, 2 << 10
	a := newAuthor()
	for i := 0; i < entries; i += together {
		documents := make([][2]string, together)
		for k := range documents {
			documents[k] = [2]string{fmt.Sprintf("flow/f%05d", i+k), fmt.Sprintf("%05d%s", i+k, strings.Repeat("x", each))}
		}
		a.commit(t, together, documents...)
	}
	path := filepath.Join(t.TempDir(), "history")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	told := 0
	done, err := Export(t.Context(), a.objects, space, a.head, file, func(objects int, _ int64) { told = objects })
	if err != nil || done.Changes != entries || told != done.Objects {
		t.Fatalf("%+v, told %d: %v", done, told, err)
	}
	head := a.head.Commit
	a = nil
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	watched := &watched{File: file, live: live, before: live()}
	report, err := Verify(watched, size, head, nil)
	if err != nil || report.Changes != entries || report.Commits != entries/together {
		t.Fatalf("%+v %v", report, err)
	}
	t.Logf("%d MB of archive, %d objects, at most %d MB live", size>>20, report.Objects, watched.most>>20)
	if size < 50<<20 || watched.most > 32<<20 {
		t.Errorf("%d bytes live of an archive of %d", watched.most, size)
	}
}

// watched looks at the memory now and then.
type watched struct {
	*os.File
	live         func() uint64
	before, most uint64
	reads        int
}

func (w *watched) ReadAt(p []byte, at int64) (int, error) {
	if w.reads++; w.reads%1500 == 0 {
		if now := w.live(); now > w.before {
			w.most = max(w.most, now-w.before)
		}
	}
	return w.File.ReadAt(p, at)
}

func FuzzVerify(f *testing.F) {
	text := sampleOf(f).export(f)
	f.Add(text)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"format":"pxhistory/1","space":"a/b","version":0}` + "\n" + `{"body":"","ref":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		report, err := verify(text, "")
		if err == nil && int64(report.Commits) != report.Version {
			t.Fatalf("%+v", report)
		}
		if err != nil && !errors.Is(err, history.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
