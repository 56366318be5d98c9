package history

import (
	"container/list"
	"sync"
)

// A Cache keeps what was decoded of objects, such as nodes and roots of any number
// of trees, the least recently used first to go. They never change, so nothing in it is ever stale; the
// Space is part of the key, so tenants never share an entry. It is safe for use
// by many goroutines. A nil *Cache keeps nothing.
type Cache struct {
	mu      sync.Mutex
	limit   int
	used    int
	order   list.List // of *cached, most recent first
	entries map[cacheKey]*list.Element
}

type cacheKey struct {
	space Space
	ref   Ref
}

type cached struct {
	key   cacheKey
	value any
	size  int // bytes
}

// NewCache returns a cache that holds about limit bytes.
func NewCache(limit int) *Cache {
	return &Cache{limit: limit, entries: map[cacheKey]*list.Element{}}
}

// Get returns what was put under the ref, or nil.
func (c *Cache) Get(space Space, ref Ref) any {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[cacheKey{space, ref}]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).value
}

// Put keeps a value that is about size bytes, and that nobody changes any more.
func (c *Cache) Put(space Space, ref Ref, value any, size int) {
	if c == nil || size > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{space, ref}
	if c.entries[key] != nil {
		return
	}
	c.entries[key] = c.order.PushFront(&cached{key, value, size})
	for c.used += size; c.used > c.limit; {
		oldest := c.order.Back()
		gone := c.order.Remove(oldest).(*cached)
		delete(c.entries, gone.key)
		c.used -= gone.size
	}
}
