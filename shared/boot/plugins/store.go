package plugins

import (
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/store/dynamo"
)

// storeOf is the store of rows over the same table. Until package dynamo has one, a
// function that needs it cannot start.
func storeOf(store *dynamo.Store) host.Store {
	s, ok := any(store).(host.Store)
	if !ok {
		panic("plugins: package dynamo keeps no rows of the capability host yet")
	}
	return s
}
