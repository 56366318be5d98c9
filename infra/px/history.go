package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/history/archive"
	"github.com/pxhost/pxhost/shared/target"
)

// exitAltered is what px history verify ends with when the archive is not in order
// or ends in another commit. A file that cannot be read is exitFailed.
const exitAltered = 3

var historyCommand = command{
	name:    "history",
	summary: "read, export and verify the change history of a project",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("history", `log WORKSPACE/PROJECT [--limit N] [--from COMMIT]
       px history export WORKSPACE/PROJECT FILE|-
       px history verify FILE [--head COMMIT]

log prints commits, newest first, a page at a time; next is what --from takes.
export writes every commit, what each did to the catalog, and every saved
document, verified as it is read; FILE must not exist, and is there only when it
is whole. Both need an operator's credentials. An export holds all that the
project's documents say: keep it as you keep them.

verify needs an export alone: no host, no state folder, no network. It exits with
0 when all is in order, 3 when a byte was altered, something is missing or added,
or the export does not end in --head; with 1 when the file cannot be read. Without
--head it proves that the export is in order, not that it is the newest: compare
the head that it prints with the commitRef of the last apply.`)
		limit := fs.Int("limit", 50, "`commits` a page, 1 to 1000 (log)")
		from := fs.String("from", "", "`commit` to go on from (log)")
		head := fs.String("head", "", "`commit` in which the export must end (verify)")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		switch {
		case len(positional) == 2 && positional[0] == "verify":
			return verifyHistory(env, positional[1], history.Ref(*head))
		case len(positional) == 2 && positional[0] == "log", len(positional) == 3 && positional[0] == "export":
		default:
			return usagef("log or export and WORKSPACE/PROJECT, or verify and FILE")
		}
		workspace, key, _ := strings.Cut(positional[1], "/")
		if !target.ValidKey(workspace) || !target.ValidKey(key) {
			return usagef("a project is WORKSPACE/PROJECT, each %s", target.KeyPattern)
		}
		p := target.Project{WorkspaceKey: workspace, ProjectKey: key}
		if positional[0] == "log" {
			if *limit < 1 || *limit > 1000 {
				return usagef("--limit is 1 to 1000")
			}
			return logHistory(ctx, env, p, history.Ref(*from), *limit)
		}
		return exportHistory(ctx, env, p, positional[2])
	},
}

// logHistory prints a page of commits.
func logHistory(ctx context.Context, env *environment, p target.Project, from history.Ref, limit int) error {
	parts, _, err := env.operator()
	if err != nil {
		return err
	}
	space := history.Space(p.String())
	if from == "" {
		head, err := parts.Store.Head(ctx, space)
		if err != nil {
			return err
		}
		from = head.Commit
	}
	commits, next, err := history.Log(ctx, parts.Store, space, from, limit)
	if errors.Is(err, history.ErrNotFound) {
		return fmt.Errorf("project %s has no commit %s", p, from)
	}
	if err != nil {
		return err
	}
	type listed struct {
		Ref history.Ref `json:"commitRef"`
		history.Commit
	}
	page := struct {
		Commits []listed    `json:"commits"`
		Next    history.Ref `json:"next,omitzero"`
	}{Commits: []listed{}, Next: next}
	for _, c := range commits {
		page.Commits = append(page.Commits, listed{c.Ref, c.Commit})
	}
	return printJSON(env.out, page)
}

// progressEvery is how often an export or a verification says how far it is.
const progressEvery = 2 * time.Second

func (e *environment) progress(what string) archive.Progress {
	last := time.Now()
	return func(objects int, bytes int64) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		fmt.Fprintf(e.err, "%s %d objects, %d MB\n", what, objects, bytes>>20)
	}
}

// exportHistory writes an archive. A file appears under its name when it is whole
// and durable, never before: an export that was interrupted is begun again.
func exportHistory(ctx context.Context, env *environment, p target.Project, name string) error {
	parts, _, err := env.operator()
	if err != nil {
		return err
	}
	space := history.Space(p.String())
	head, err := parts.Store.Head(ctx, space)
	if err != nil {
		return err
	}
	if head.Commit == "" {
		return fmt.Errorf("project %s does not exist or has no commit yet", p)
	}
	write := func(out io.Writer) (history.Verified, error) {
		return archive.Export(ctx, parts.Store, space, head, out, env.progress("exported"))
	}
	var done history.Verified
	if name == "-" {
		done, err = write(env.out)
	} else {
		done, err = writeWhole(name, write)
	}
	if err != nil {
		return fmt.Errorf("export of %s: %w", p, err)
	}
	_, err = fmt.Fprintf(env.err, "exported %s: %d commits, %d changes, %d objects, head %s\n", p, done.Commits, done.Changes, done.Objects, head.Commit)
	return err
}

// writeWhole makes a new file of what write writes, readable by its owner alone.
func writeWhole(name string, write func(io.Writer) (history.Verified, error)) (done history.Verified, err error) {
	if _, err := os.Lstat(name); err == nil {
		return done, fmt.Errorf("%s exists already: %w", name, fs.ErrExist)
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.partial") // mode 0600
	if err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	done, err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return done, err
	}
	// Link refuses to replace what appeared under the name meanwhile; Rename would not.
	if err = os.Link(file.Name(), name); err != nil {
		return done, err
	}
	return done, os.Remove(file.Name())
}

// verifyHistory checks an archive offline.
func verifyHistory(env *environment, name string, head history.Ref) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file: save the export first", name)
	}
	if err != nil {
		return err
	}
	report, err := archive.Verify(file, info.Size(), head, env.progress("read"))
	switch {
	case errors.Is(err, archive.ErrOtherHead) && report.Beyond > 0:
		return &exitError{exitAltered, fmt.Errorf("%s goes %d commits beyond %s: it ends in %s", name, report.Beyond, head, report.Commit)}
	case errors.Is(err, archive.ErrOtherHead):
		return &exitError{exitAltered, fmt.Errorf("%s ends in %s, and %s is not in its chain", name, report.Commit, head)}
	case errors.Is(err, history.ErrCorrupt):
		return &exitError{exitAltered, fmt.Errorf("%s is not in order: %w", name, err)}
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(env.out, "%s is in order: project %s, %d commits, %d changes, %d objects, head %s\n", name, report.Space, report.Commits, report.Changes, report.Objects, report.Commit)
	return err
}
