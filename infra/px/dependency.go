package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/dependency/locking"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// door is who comes through the door to a Project's dependencies, and the door.
func (e *environment) door(p target.Project, as string) (locking.Door, locking.Who, error) {
	if as == "" {
		return locking.Door{}, locking.Who{}, usagef("--as names who does it")
	}
	parts, issuer, err := e.operator()
	if err != nil {
		return locking.Door{}, locking.Who{}, err
	}
	catalog, err := e.planned()
	if err != nil {
		return locking.Door{}, locking.Who{}, err
	}
	if !strings.Contains(as, "|") {
		as = issuer + "|" + as
	}
	return locking.Door{Reader: parts.Reader(), Planner: parts.Planner(), Applier: parts.Applier(nil), Catalog: packages.Product(), Components: catalog}, locking.Who{Principal: as, Project: p}, nil
}

func projectDependency(ctx context.Context, env *environment, p target.Project, verb string, rest []string, as, license string) error {
	var release target.Package
	switch {
	case verb == "list" && len(rest) == 0:
	case (verb == "add" || verb == "remove") && len(rest) == 1:
		var err error
		if release, err = dependency.ParsePackage(rest[0]); err != nil {
			return usagef("%s", err)
		}
	default:
		return usagef("add or remove and PACKAGE@VERSION#DIGEST, or list")
	}
	door, who, err := env.door(p, as)
	if err != nil {
		return err
	}
	var locked locking.Locked
	var refused outcome.Findings
	switch verb {
	case "add":
		locked, refused, err = door.Add(ctx, who, locking.Installation{Package: release, License: license})
	case "remove":
		locked, refused, err = door.Remove(ctx, who, release)
	default:
		locked, refused, err = door.List(ctx, who)
	}
	return env.tellLock(locked, refused, err)
}

func projectPython(ctx context.Context, env *environment, p target.Project, minor, as string) error {
	if minor == "any" {
		minor = ""
	} else if minor == "" {
		return usagef("a minor of Python, such as 3.13, or any")
	}
	door, who, err := env.door(p, as)
	if err != nil {
		return err
	}
	locked, refused, err := door.Python(ctx, who, minor)
	return env.tellLock(locked, refused, err)
}

// nothingChanged tells why a person's door refused.
func nothingChanged(refused outcome.Findings) error {
	var all []error
	for _, d := range refused {
		params, err := canon.Encode(d.Params)
		if err != nil {
			return err
		}
		all = append(all, fmt.Errorf("%s at %s %s", d.Code, d.Path, params))
	}
	return fmt.Errorf("nothing is changed:\n%w", errors.Join(all...))
}

// tellLock prints a lock, or why it is not changed.
func (e *environment) tellLock(locked locking.Locked, refused outcome.Findings, err error) error {
	if err != nil {
		return err
	}
	if refused != nil {
		return nothingChanged(refused)
	}
	packages := []string{}
	for _, p := range locked.Lock.All() {
		packages = append(packages, dependency.Text(p))
	}
	python := locked.Lock.Python
	if python == "" {
		python = "any"
	}
	licenses := map[string]string{}
	for key, is := range locked.Lock.Packages {
		licenses[key] = is.License
	}
	return printJSON(e.out, struct {
		Packages   []string          `json:"packages"`
		Licenses   map[string]string `json:"licenses"`
		Python     string            `json:"python"`
		Generation int64             `json:"generation"`
		Revision   history.Ref       `json:"revisionRef,omitzero"`
		Commit     history.Ref       `json:"commitRef,omitzero"`
	}{packages, licenses, python, locked.Generation, locked.Revision, locked.Commit})
}
