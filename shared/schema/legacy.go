package schema

import (
	"regexp"

	"github.com/pxhost/pxhost/shared/outcome"
)

// The legacy entries that a schema meets (L1). params.legacy names the entry, so
// that refusals can be counted by it; the five names are fixed texts and not
// the caller's.
var legacyFields = map[string]bool{
	"projectId": true, "flowId": true, "nodeId": true, "projectRoot": true, "flowPath": true,
}

// RawDottedPath is the name of the legacy payload entry: a result or port that
// is addressed by one dotted string, such as "nodes.check.utilization", where
// the schema has keys.
const RawDottedPath = "raw-dotted-result-path"

// legacyAddress are the names beside which the dotted form used to stand. In an
// object that addresses by keys, such a name with a dotted string is the legacy
// form; any other unknown name is only unknown.
var legacyAddress = map[string]bool{
	"result": true, "resultPath": true, "port": true, "portPath": true, "path": true,
}

// documentHandle is how a draft that was not saved is addressed. Where a target takes
// saved revisions alone, it is refused with the reason: it is no slip of the pen.
const documentHandle = "documentHandle"

// pinned reports whether the object addresses a saved revision.
func (s *shape) pinned() bool {
	_, revision := s.index["revisionRef"]
	_, function := s.index["functionKey"]
	return revision || function
}

var dotted = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$`)

func isDotted(text string) bool { return len(text) < 1024 && dotted.MatchString(text) }

func (d *decoder) legacy(at *path) {
	d.found.add(outcome.SchemaUnsupportedVersion, at, outcome.Params{"legacy": RawDottedPath})
}

// shorten bounds a name that the caller sent and that a path repeats.
func shorten(name string) string {
	const most = 128
	n := 0
	for i := range name {
		if n == most {
			return name[:i] + "…"
		}
		n++
	}
	return name
}
