// Package standin lets tests and benchmarks have services outside stood in for by a
// server on this machine: it makes a copy of what was built in which the functions that
// call outside are the program of the folder above, with the exceptions that are named.
//
// Nothing of the product imports it.
package standin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Configuration is the file outside.json beside the program.
type Configuration struct {
	Hosts map[string]string `json:"hosts"` // host name → IP address and port on this machine
	Roots []byte            `json:"roots"` // PEM: who vouches for them
	// Names are what other host names resolve to, one answer after another; the last for
	// ever. They are no exceptions: what they lead to is judged as ever.
	Names map[string][]string `json:"names,omitempty"`
}

// File is the name of a configuration.
const File = "outside.json"

// Callers are the functions that call services outside.
var Callers = []string{"capability_api", "adapter_http_json", "adapter_mcp_http"}

// Build builds the program that stands for them.
func Build(program string) error {
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/pxhost/pxhost/infra/acceptance/outside")
	build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Site makes a folder with a template, its state machines and its functions, of a folder
// in which all of it was built.
func Site(dir, built, program string, c Configuration) error {
	from, err := filepath.Abs(built)
	if err != nil {
		return err
	}
	functions := filepath.Join(".build", "functions")
	if err := os.MkdirAll(filepath.Join(dir, functions), 0o755); err != nil {
		return err
	}
	link := func(name string) error { return os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)) }
	for _, name := range []string{"template.yaml", "statemachines"} {
		if err := link(name); err != nil {
			return err
		}
	}
	all, err := os.ReadDir(filepath.Join(from, functions))
	if err != nil {
		return err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	for _, f := range all {
		name := filepath.Join(functions, f.Name())
		if !slices.Contains(Callers, f.Name()) {
			if err := link(name); err != nil {
				return err
			}
			continue
		}
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "bootstrap"), text, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, File), config, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Vouch makes a certificate for names, and the root that vouches for it.
func Vouch(names ...string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
