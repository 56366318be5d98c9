package blob

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// shelf is a bucket. fail names the call that fails.
type shelf struct {
	bodies, kinds map[string]string
	fail          string
	put           int
	disposition   string
	life          time.Duration
}

var errShelf = errors.New("shelf")

func (s *shelf) Has(_ context.Context, name string) (bool, error) {
	if s.fail == "has" {
		return false, errShelf
	}
	_, there := s.bodies[name]
	return there, nil
}

func (s *shelf) Put(_ context.Context, name string, body []byte, mediaType string) error {
	if s.fail == "put" {
		return errShelf
	}
	s.put++
	s.bodies[name], s.kinds[name] = string(body), mediaType
	return nil
}

func (s *shelf) Presign(_ context.Context, name, disposition string, life time.Duration) (string, error) {
	if s.fail == "presign" {
		return "", errShelf
	}
	s.disposition, s.life = disposition, life
	return "https://bucket/" + name, nil
}

// covers: U3
func TestADownloadIsStoredOnceAndAddressedForAsLongAsItWasSaid(t *testing.T) {
	s := &shelf{bodies: map[string]string{}, kinds: map[string]string{}}
	d := Downloads{Client: s}
	address := func(body func() ([]byte, error)) (string, error) {
		return d.Address(t.Context(), "download/a", "table.json", "application/json", 5*time.Minute, body)
	}
	bytes := func() ([]byte, error) { return []byte("{}"), nil }
	for _, fail := range []string{"has", "put", "presign"} {
		s.fail = fail
		if url, err := address(bytes); err == nil || url != "" || errors.Is(err, errShelf) {
			t.Errorf("%s fails: %q, %v", fail, url, err)
		}
	}
	delete(s.bodies, "download/a")
	s.fail, s.put = "", 0
	if _, err := address(func() ([]byte, error) { return nil, io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) || s.put != 0 {
		t.Errorf("a body that cannot be read: %v, put %d times", err, s.put)
	}
	for range 2 {
		url, err := address(bytes)
		if err != nil || url != "https://bucket/download/a" || s.put != 1 || s.bodies["download/a"] != "{}" || s.kinds["download/a"] != "application/json" {
			t.Errorf("%q, %v, put %d times: %v %v", url, err, s.put, s.bodies, s.kinds)
		}
	}
	if s.life != 5*time.Minute || s.disposition != `attachment; filename="table.json"` {
		t.Errorf("signed for %v with %q", s.life, s.disposition)
	}
}
