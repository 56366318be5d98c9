//go:build linux

package task

import (
	"encoding/binary"
	"maps"
	"strings"
	"testing"
)

// A thread of a Sentry in a container with one filter, as procfs shows it.
func good() map[string]string {
	none := "0000000000000000"
	id := "700001\t700001\t700001\t700001"
	return map[string]string{"Uid": id, "Gid": id, "Groups": "", "CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none,
		"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "2"}
}

// covers: X5
func TestAThreadIsRefusedForEachThingThatIsNotAsItMustBe(t *testing.T) {
	if err := confined(good(), 700_001, 1, true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, field, value string
		names              string // in the error
	}{
		{"root", "Uid", "0\t0\t0\t0", "Uid"},
		{"a saved uid of root", "Uid", "700001\t700001\t0\t700001", "Uid"},
		{"the uid of another sandbox", "Uid", "700002\t700002\t700002\t700002", "Uid"},
		{"the gid of another sandbox", "Gid", "700001\t0\t700001\t700001", "Gid"},
		{"a group", "Groups", "0", "Groups"},
		{"an effective capability", "CapEff", "0000000000040000", "CapEff"},
		{"a permitted capability", "CapPrm", "0000000000040000", "CapPrm"},
		{"an inheritable capability", "CapInh", "0000000000040000", "CapInh"},
		{"an ambient capability", "CapAmb", "0000000000040000", "CapAmb"},
		{"new privileges", "NoNewPrivs", "0", "NoNewPrivs"},
		{"no seccomp", "Seccomp", "0", "Seccomp"},
		{"strict seccomp", "Seccomp", "1", "Seccomp"},
		{"the filter of the container alone", "Seccomp_filters", "1", "filters"},
		{"a filter that nobody knows", "Seccomp_filters", "3", "filters"},
		{"filters that are no number", "Seccomp_filters", "many", "Seccomp_filters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := good()
			status[c.field] = c.value
			if err := confined(status, 700_001, 1, true); err == nil || !strings.Contains(err.Error(), c.names) {
				t.Errorf("it was taken: %v", err)
			}
		})
	}
	for field := range maps.Keys(good()) {
		status := good()
		delete(status, field)
		if err := confined(status, 700_001, 1, true); err == nil {
			t.Errorf("a kernel that does not show %s was taken", field)
		}
	}
	stub := good()
	stub["Seccomp_filters"] = "3"
	if err := confined(stub, 700_001, 1, false); err != nil {
		t.Errorf("a stub with a filter of its own: %v", err)
	}
}

func TestAJailSaysNothingOfTheMachinesAddresses(t *testing.T) {
	var auxv []byte
	pair := func(key, value uint64) {
		auxv = binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(auxv, key), value)
	}
	pair(33, 0x7ffd00000000) // the vDSO
	pair(16, 0xbfebfbff)
	pair(25, 0x7ffd00000999) // random bytes
	pair(26, 2)
	pair(0, 0)
	pair(16, 1) // after the end
	got := capabilities(auxv)
	auxv = nil
	pair(16, 0xbfebfbff)
	pair(26, 2)
	pair(0, 0)
	if string(got) != string(auxv) {
		t.Errorf("kept %x, want %x", got, auxv)
	}
}
