package execution

import (
	"sync"

	"github.com/pxhost/pxhost/shared/capability"
)

// keep is what a process has read. Manifests never change; a workspace is good as long
// as its generation.
type keep struct {
	mu         sync.Mutex
	workspaces map[string]capability.Workspace
	manifests  map[string]capability.Manifest
}

// most is how many of each are kept.
const most = 200

func (k *keep) get(workspace string) (capability.Workspace, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.workspaces[workspace]
	return w, ok
}

func (k *keep) put(workspace string, w capability.Workspace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.workspaces == nil || len(k.workspaces) >= most {
		k.workspaces = map[string]capability.Workspace{}
	}
	// Of two who read at once, the later generation stays.
	if k.workspaces[workspace].Generation <= w.Generation {
		k.workspaces[workspace] = w
	}
}

func (k *keep) manifest(digest string) (capability.Manifest, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.manifests[digest]
	return m, ok
}

func (k *keep) keepManifest(digest string, m capability.Manifest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.manifests == nil || len(k.manifests) >= most {
		k.manifests = map[string]capability.Manifest{}
	}
	k.manifests[digest] = m
}
