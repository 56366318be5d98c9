package main

import (
	"context"
	"io"
	"os"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/installing"
	"github.com/pxhost/pxhost/shared/dependency"
	dependencydoor "github.com/pxhost/pxhost/shared/dependency/door"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// projectComponent is the door by which a Component that somebody brings is recorded.
func projectComponent(ctx context.Context, env *environment, p target.Project, verb string, rest []string, as string, acceptUnsigned bool) error {
	var file installing.File
	var release target.Package
	var err error
	switch {
	case verb == "list" && len(rest) == 0:
	case verb == "add" && len(rest) == 1:
		if rest[0] == "-" {
			file.Text, err = io.ReadAll(io.LimitReader(env.in, declared.MaxBytes+1))
		} else {
			file.Text, err = os.ReadFile(rest[0])
		}
		if err != nil {
			return err
		}
		file.AcceptUnsigned = acceptUnsigned
	case verb == "remove" && len(rest) == 1:
		if release, err = dependency.ParsePackage(rest[0]); err != nil {
			return usagef("%s", err)
		}
	default:
		return usagef("add FILE or -, remove PACKAGE@VERSION#DIGEST, or list")
	}
	lock, who, err := env.door(p, as)
	if err != nil {
		return err
	}
	d := installing.Door{Door: dependencydoor.Door{Reader: lock.Reader, Planner: lock.Planner, Applier: lock.Applier}}
	var told installing.Recorded
	var refused outcome.Findings
	switch verb {
	case "add":
		told, refused, err = d.Add(ctx, who, file)
	case "remove":
		told, refused, err = d.Remove(ctx, who, release)
	default:
		told, refused, err = d.List(ctx, who)
	}
	if err != nil {
		return err
	}
	if refused != nil {
		return nothingChanged(refused)
	}
	type record struct {
		component.Record
		Package  string `json:"package"` // as remove takes it
		Admitted bool   `json:"admitted"`
	}
	records := []record{}
	for _, r := range told.Records {
		records = append(records, record{r, dependency.Text(r.PackageRelease.Package()), component.Admitted(r)})
	}
	return printJSON(env.out, struct {
		Records    []record    `json:"records"`
		Generation int64       `json:"generation"`
		Revision   history.Ref `json:"revisionRef,omitzero"`
		Commit     history.Ref `json:"commitRef,omitzero"`
	}{records, told.Generation, told.Revision, told.Commit})
}
