package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

var validateCommand = command{
	name:    "validate",
	summary: "say everything that is wrong with a plugin package",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("validate", `DIR|ZIP [flags]

Judges a package as the host does at its installation, without a host. A finding is a
code, the place as a JSON Pointer into the object of the package's files, and the rule
that is broken. It ends with 1 if something is wrong.`)
		raw := fs.Bool("json", false, "print the judgement as JSON")
		positional, err := env.parseMixed(fs, args)
		if err != nil {
			return err
		}
		if len(positional) != 1 {
			return usagef("one folder or zip of a package")
		}
		p, findings, err := readPackage(positional[0])
		if err != nil {
			return &exitError{exitUsage, err}
		}
		told := struct {
			Valid         bool             `json:"valid"`
			PluginKey     string           `json:"pluginKey,omitzero"`
			Version       string           `json:"version,omitzero"`
			PackageDigest string           `json:"packageDigest,omitzero"`
			Publisher     string           `json:"publisher,omitzero"`
			Findings      outcome.Findings `json:"findings"`
		}{Findings: findings}
		if findings == nil {
			m, wrong := judgement.Judge(p)
			told.PluginKey, told.Version, told.Findings = m.PluginKey, m.Version, wrong
			if told.PackageDigest, err = p.Digest(); err != nil {
				return err
			}
			told.Publisher, _ = p.Publisher()
		}
		if told.Valid = len(told.Findings) == 0; told.Valid {
			told.Findings = outcome.Findings{}
		}
		if *raw {
			if err := printJSON(env.out, told); err != nil {
				return err
			}
		} else if told.Valid {
			signed := "nobody signed it"
			if told.Publisher != "" {
				signed = "signed by the key " + told.Publisher
			}
			fmt.Fprintf(env.out, "%s %s is valid\n%s, %s\n", plainText(told.PluginKey), told.Version, told.PackageDigest, signed)
		} else {
			for _, f := range told.Findings {
				fmt.Fprintln(env.out, finding(f))
			}
		}
		if !told.Valid {
			return &exitError{exitFailed, fmt.Errorf("findings: %d; each names the file and the place in it, and shared/capability/README.md what to do", len(told.Findings))}
		}
		return nil
	},
}

// finding is a finding as one line.
func finding(f outcome.Diagnostic) string {
	params, _ := json.Marshal(f.Params, json.Deterministic(true))
	return fmt.Sprintf("%s at %q %s", f.Code, f.Path, plainText(string(params)))
}

// judgement is that of the host, which needs nothing of one.
var judgement = &installation.Manager{CheckURL: outbound.CheckURL}

// readPackage reads a folder or a zip. Where its files are wrong, what is wrong with its
// manifest comes at once with it.
func readPackage(path string) (packaging.Package, outcome.Findings, error) {
	p, findings, err := packageAt(path)
	if findings != nil {
		_, findings = judgement.JudgeRead(p, findings)
	}
	return p, findings, err
}

func packageAt(path string) (packaging.Package, outcome.Findings, error) {
	info, err := os.Stat(path)
	if err != nil {
		return packaging.Package{}, nil, err
	}
	if info.IsDir() {
		p, findings := packaging.Files(os.DirFS(path))
		return p, findings, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return packaging.Package{}, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, packaging.MaxAll+1))
	if err != nil {
		return packaging.Package{}, nil, err
	}
	p, findings := packaging.Zip(text)
	return p, findings, nil
}

// sendable reads a package that is to be sent, as a member of a request. What is wrong
// with it is said here, before anything is sent.
func sendable(path string) (packaging.Package, map[string]any, error) {
	p, findings, err := readPackage(path)
	if err != nil {
		return p, nil, &exitError{exitUsage, err}
	}
	if findings == nil {
		_, findings = judgement.Judge(p)
	}
	if len(findings) > 0 {
		var told []error
		for _, f := range findings {
			told = append(told, errors.New(finding(f)))
		}
		return p, nil, &exitError{exitFailed, fmt.Errorf("the package is not valid, and nothing was sent:\n%w\npx validate %s judges it without a host", errors.Join(told...), path)}
	}
	text, err := zipped(p)
	if err != nil {
		return p, nil, err
	}
	return p, map[string]any{"zip": base64.StdEncoding.EncodeToString(text)}, nil
}

// zipped is a package as a zip, whichever form it had.
func zipped(p packaging.Package) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	add := func(name string, text []byte) error {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(text)
		}
		return err
	}
	err := add(packaging.ManifestName, p.Manifest)
	for _, name := range p.Paths() {
		err = errors.Join(err, add(name, []byte(p.Sources[name])))
	}
	if p.Signature != nil {
		text, failed := json.Marshal(p.Signature)
		err = errors.Join(err, failed, add(packaging.SignatureName, text))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	if out.Len() > packaging.MaxAll {
		return nil, fmt.Errorf("the package is %d bytes as a zip, of at most %d", out.Len(), packaging.MaxAll)
	}
	return out.Bytes(), nil
}
