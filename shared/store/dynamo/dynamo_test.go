package dynamo

import (
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/store/storetest"
)

func clock() time.Time { return storetest.Now }

func over(c Client) *Store {
	return New(Config{Client: c, Tables: Tables{Heads: "heads", Objects: "objects", Changes: "changes", Host: "host"}, Blobs: &heap{blobs: map[string][]byte{}}, Now: clock})
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store { return over(newFake()) })
}
