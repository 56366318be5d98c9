//go:build unix

package failpoint

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv("PX_TEST_FAILPOINT"); ok {
		if err := Arm(text); err != nil {
			os.Exit(3)
		}
		for range 3 {
			Hit(S3Stored)
			os.Stdout.WriteString("hit ")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOnlyTheHitThatWasArmedKillsAndItKillsAtOnce(t *testing.T) {
	for text, want := range map[string]string{"": "hit hit hit ", "s3.stored": "", "s3.stored:1": "", "s3.stored:3": "hit hit ", "s3.stored:4": "hit hit hit ", "s3.storing": "hit hit hit "} {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "PX_TEST_FAILPOINT="+text)
		out, err := c.Output()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if string(out) != want || killed != (strings.Count(want, "hit") < 3) {
			t.Errorf("%q: %q, %v", text, out, err)
		}
	}
}

func TestWhatNamesNoPointArmsNothing(t *testing.T) {
	for _, text := range []string{"s3", "s3.stored:", "s3.stored:0", "s3.stored:-1", "s3.stored:x", ":1", "s3.stored "} {
		if err := Arm(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if armed.Load() != nil {
		t.Error("a point is armed")
	}
}

// Every constant of the type is listed in Points, and is hit somewhere in the
// local host: a point that nothing hits would make the kill test pass unseen.
func TestEveryPointIsListedAndHit(t *testing.T) {
	values, hit := map[string]Point{}, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Point" && file.Name.Name == "failpoint" {
					values[n.Names[0].Name] = Point(strings.Trim(n.Values[0].(*ast.BasicLit).Value, `"`))
				}
			case *ast.CallExpr:
				f, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || f.Sel.Name != "Hit" || len(n.Args) != 1 {
					break
				}
				if id, ok := f.X.(*ast.Ident); !ok || id.Name != "failpoint" {
					break
				}
				if p, ok := n.Args[0].(*ast.SelectorExpr); ok {
					hit[p.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(values) != len(Points) {
		t.Errorf("%d constants, %d points", len(values), len(Points))
	}
	for name, p := range values {
		if !slices.Contains(Points, p) {
			t.Errorf("%s is not listed", name)
		}
		if !hit[name] {
			t.Errorf("nothing hits %s", name)
		}
	}
}
