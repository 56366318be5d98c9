package quantity

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
)

// throughPython is what the sandbox does with a value between a Function's input and its
// result, if the Function returns what it was given.
const throughPython = `
import json, sys
sys.path.insert(0, "../../infra/worker/shim")
import contract
for line in sys.stdin:
    port, value = json.loads(line)
    try:
        print(json.dumps({"value": contract.result(port, contract.argument(port, value))}), flush=True)
    except contract.Refused as e:
        print(json.dumps({"refused": e.reason}), flush=True)
`

// The sandbox has its own reading of contracts, in Python. Every value that is one
// here is one there too, and comes through it unchanged.
//
// covers: N2, U1
func TestEveryValueComesThroughTheContractsOfTheSandboxUnchanged(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command(python, "-I", "-B", "-c", throughPython)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	answers := bufio.NewReader(out)
	rapid.Check(t, func(t *rapid.T) {
		p := anyPort(2).Filter(Port.HasPlain).Draw(t, "port")
		v := anyValue(t, p)
		if ragged(p, v) {
			t.Skip("the sandbox takes rectangles alone")
		}
		text, err := p.Plain(v)
		if err != nil {
			t.Fatal(err)
		}
		contract, err := canon.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "["+string(contract)+","+string(text)+"]\n"); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Value   json.RawMessage
			Refused string
		}
		if err := json.Unmarshal(line, &answer); err != nil || answer.Refused != "" {
			t.Fatalf("%s of %s: %s %v", text, contract, line, err)
		}
		back, found := p.DecodePlain(canon.Raw(answer.Value), "")
		if len(found) > 0 || !Equal(v, back) {
			t.Fatalf("%s of %s comes back as %s: %v", text, contract, line, found)
		}
	})
}

// ragged reports whether an array in a value has rows of several lengths.
func ragged(p Port, v Value) bool {
	switch v := v.(type) {
	case Record:
		for key, item := range v {
			if ragged(p.Fields[key], item) {
				return true
			}
		}
	case List:
		of := p
		if p.Type == ListType {
			of = *p.Of
		}
		length := -1
		for _, item := range v {
			if inner, ok := item.(List); ok && p.Type != ListType {
				if length >= 0 && len(inner) != length {
					return true
				}
				length = len(inner)
			}
			if ragged(of, item) {
				return true
			}
		}
	}
	return false
}
