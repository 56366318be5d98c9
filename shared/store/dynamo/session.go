package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/console/session"
)

var _ session.Store = (*Store)(nil)

func sessionKey(id string) attributes { return hostKey("session#"+id, "session") }

// BeginSession implements session.Store.
func (s *Store) BeginSession(ctx context.Context, in session.Session) error {
	if in.ID == "" || in.Subject == "" || in.Expires.IsZero() {
		return errors.New("dynamo: a session has an ID, a subject and an end")
	}
	text, err := canon.Encode(in)
	if err != nil {
		return err
	}
	item := sessionKey(in.ID)
	item[rowAttribute], item["ttl"] = str(string(text)), num(in.Expires.Unix())
	err = s.create(ctx, "begin session", s.tables.Host, item)
	if !errors.Is(err, errCondition) {
		return err
	}
	// An ID is of a random key: the row is of an attempt of this very call.
	if old, err := s.Session(ctx, in.ID); err != nil {
		return err
	} else if old.Subject != in.Subject || old.Issuer != in.Issuer || !old.Begun.Equal(in.Begun) {
		return errors.New("dynamo: another session has this ID")
	}
	return nil
}

// Session implements session.Store.
func (s *Store) Session(ctx context.Context, id string) (session.Session, error) {
	r, err := s.get(ctx, "read session", s.tables.Host, sessionKey(id))
	if err != nil {
		return session.Session{}, err
	}
	if dead(r) {
		return session.Session{}, session.ErrNone
	}
	var out session.Session
	if err := json.Unmarshal([]byte(r.str(rowAttribute)), &out); err != nil {
		return session.Session{}, errors.Join(r.err, fmt.Errorf("dynamo: a stored session cannot be read"))
	}
	out.ID = id
	return out, r.err
}

// EndSession implements session.Store. What was a session becomes a row that holds none,
// until the session would have ended: a repeated or late BeginSession finds its place
// taken.
func (s *Store) EndSession(ctx context.Context, id string, until time.Time) error {
	item := sessionKey(id)
	item["ttl"] = num(until.Unix())
	return repeat(ctx, s, "end session", func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Host, Item: item}, noRetries)
		return err
	})
}
