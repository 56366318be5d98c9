package dynamo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
)

var (
	_ sandbox.Store = (*Store)(nil)
	_ sandbox.Keys  = (*Store)(nil)
)

const (
	jobPrefix = "job#"
	// The queue is one partition, so that it can be read consistently and is in order
	// of time. A job is three transactional writes in it, of which a partition takes
	// 500 a second: more jobs than a few dozen workers run.
	queuePartition = "queue"
	workers        = "workers"
	fleetSort      = "fleet"
)

// The key that signs jobs never changes; a process reads it once.
type jobKey struct {
	mu  sync.Mutex
	key ed25519.PrivateKey
}

// JobKey implements sandbox.Keys. It makes the key; of several processes that do so
// at once, all return the same.
func (s *Store) JobKey(ctx context.Context) (ed25519.PrivateKey, error) {
	s.signs.mu.Lock()
	defer s.signs.mu.Unlock()
	if s.signs.key != nil {
		return s.signs.key, nil
	}
	for range 2 {
		r, err := s.get(ctx, "read job key", s.tables.Host, key("sandbox", "key"))
		if err != nil {
			return nil, err
		}
		if r != nil {
			seed := r.bin("key")
			if r.err != nil || len(seed) != ed25519.SeedSize {
				return nil, errors.New("dynamo: the stored job key is none")
			}
			s.signs.key = ed25519.NewKeyFromSeed(seed)
			return s.signs.key, nil
		}
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		item := key("sandbox", "key")
		item["key"] = bin(seed)
		setTime(item, "createdAt", s.now())
		// Taken already, or by an attempt of this call whose reply was lost: what is
		// stored is the key either way, and is read back.
		if err := s.create(ctx, "create job key", s.tables.Host, item); err != nil && !errors.Is(err, errCondition) {
			return nil, err
		}
	}
	return nil, errors.New("dynamo: the job key that was created cannot be read")
}

func jobKeyOf(jobRef string) attributes {
	return attributes{"pk": str(jobPrefix + jobRef), "sk": str("job")}
}

func jobShard(jobRef string) string { return "job" + strings.TrimPrefix(dueShard(jobRef), "run") }

// jobItem is the row as an item, as runItem.
func jobItem(j sandbox.Job, version int64) (attributes, error) {
	text, err := canon.Encode(j)
	if err != nil {
		return nil, err
	}
	item := jobKeyOf(j.JobRef)
	item["job"], item["version"] = str(string(text)), num(version)
	if !j.DueAt.IsZero() {
		item["dueShard"], item["dueAt"] = str(jobShard(j.JobRef)), num(j.DueAt.UnixNano())
	}
	return item, nil
}

// queueKey is the place of a job in the queue: by the time of its creation.
func queueKey(j sandbox.Job) attributes {
	return attributes{"pk": str(queuePartition), "sk": str(fmt.Sprintf("%020d#%s", j.CreatedAt.UnixNano(), j.JobRef))}
}

// queueWrite keeps the entry of a job in step with its row. It has no condition of
// its own: it stands beside a write of the row, which has.
func (s *Store) queueWrite(j sandbox.Job) types.TransactWriteItem {
	item := queueKey(j)
	if j.State.Terminal() {
		return types.TransactWriteItem{Delete: &types.Delete{TableName: &s.tables.Runs, Key: item}}
	}
	item["tenant"], item["until"] = str(j.Tenant()), num(0)
	if j.State == sandbox.Leased {
		item["until"] = num(j.Until.UnixNano())
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.tables.Runs, Item: item}}
}

// CreateJob implements sandbox.Store.
func (s *Store) CreateJob(ctx context.Context, j sandbox.Job) error {
	item, err := jobItem(j, 1)
	if err != nil {
		return err
	}
	r, err := s.transact(ctx, "create job", []types.TransactWriteItem{at(0).put(s.tables.Runs, item), s.queueWrite(j)}, "create job", encodedText(j))
	if err != nil || r.failed == nil {
		return err
	}
	return sandbox.ErrExists // by an attempt of this call too: who is told reads it
}

// Job implements sandbox.Store.
func (s *Store) Job(ctx context.Context, jobRef string) (sandbox.Job, error) {
	r, err := s.get(ctx, "read job", s.tables.Runs, jobKeyOf(jobRef))
	if err != nil {
		return sandbox.Job{}, err
	}
	if r == nil {
		return sandbox.Job{}, fmt.Errorf("dynamo: job: %w", history.ErrNotFound)
	}
	var out sandbox.Job
	if err := json.Unmarshal([]byte(r.str("job")), &out, json.RejectUnknownMembers(true)); err != nil {
		return sandbox.Job{}, fmt.Errorf("dynamo: job: stored row: %w", err)
	}
	out.Version = r.num("version")
	return out, r.err
}

// ReplaceJob implements sandbox.Store. After a lost reply it may meet its own write:
// that is ErrMoved too, and the caller reads and sees its step done.
func (s *Store) ReplaceJob(ctx context.Context, j sandbox.Job) error {
	if j.Version < 1 {
		return sandbox.ErrMoved
	}
	item, err := jobItem(j, j.Version+1)
	if err != nil {
		return err
	}
	r, err := s.transact(ctx, "replace job", []types.TransactWriteItem{at(j.Version).put(s.tables.Runs, item), s.queueWrite(j)},
		"replace job", fmt.Sprint(j.Version), encodedText(j))
	if err != nil || r.failed == nil {
		return err
	}
	return sandbox.ErrMoved
}

// NoteJob implements sandbox.Store.
func (s *Store) NoteJob(ctx context.Context, j sandbox.Job) error {
	if j.Version < 1 {
		return sandbox.ErrMoved
	}
	item, err := jobItem(j, j.Version+1)
	if err != nil {
		return err
	}
	return s.putAt(ctx, "note job", item, j.Version)
}

// putAt stores a row of Runs if the stored one has the version, else ErrMoved.
func (s *Store) putAt(ctx context.Context, op string, item attributes, version int64) error {
	c := at(version)
	err := repeat(ctx, s, op, func(ctx context.Context) error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Runs, Item: item,
			ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}, noRetries)
		return err
	})
	if errors.Is(err, errCondition) {
		return sandbox.ErrMoved
	}
	return err
}

// queuePage is how many entries of the queue one read looks at.
const queuePage = 100

// queued reads the queue in order, until each says that it is enough.
func (s *Store) queued(ctx context.Context, op string, in dynamodb.QueryInput, each func(*dynamodb.QueryOutput) (enough bool)) error {
	in.TableName, in.ConsistentRead, in.Limit = &s.tables.Runs, aws.Bool(true), aws.Int32(queuePage)
	in.KeyConditionExpression = aws.String("pk = :queue")
	in.ExpressionAttributeValues[":queue"] = str(queuePartition)
	for {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, op, func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &in, noRetries)
			return err
		})
		if err != nil {
			return err
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; each(out) || len(in.ExclusiveStartKey) == 0 {
			return nil
		}
	}
}

// Leasable implements sandbox.Store.
func (s *Store) Leasable(ctx context.Context, q sandbox.Search) ([]string, error) {
	in := dynamodb.QueryInput{FilterExpression: aws.String("#until <= :now"), ExpressionAttributeNames: map[string]string{"#until": "until"},
		ExpressionAttributeValues: attributes{":now": num(q.Now.UnixNano())}}
	if q.Tenant != "" {
		in.FilterExpression = aws.String("#until <= :now AND #tenant = :tenant")
		in.ExpressionAttributeNames["#tenant"] = "tenant"
		in.ExpressionAttributeValues[":tenant"] = str(q.Tenant)
	}
	var refs []string
	var broken error
	err := s.queued(ctx, "query queue", in, func(out *dynamodb.QueryOutput) bool {
		for _, item := range out.Items {
			r := row{item: item}
			_, ref, _ := strings.Cut(r.str("sk"), "#")
			if refs = append(refs, ref); r.err != nil {
				broken = r.err
			}
		}
		return len(refs) >= q.Limit || broken != nil
	})
	return refs[:min(q.Limit, len(refs))], errors.Join(err, broken)
}

// Backlog implements sandbox.Store.
func (s *Store) Backlog(ctx context.Context, tenant string, most int) (int, error) {
	n := 0
	err := s.queued(ctx, "count queue", dynamodb.QueryInput{Select: types.SelectCount, FilterExpression: aws.String("#tenant = :tenant"),
		ExpressionAttributeNames: map[string]string{"#tenant": "tenant"}, ExpressionAttributeValues: attributes{":tenant": str(tenant)},
	}, func(out *dynamodb.QueryOutput) bool {
		n += int(out.Count)
		return n >= most
	})
	return min(n, most), err
}

// DueJobs implements sandbox.Store.
func (s *Store) DueJobs(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return s.due(ctx, "job", jobPrefix, now, limit)
}

func workerKey(sk string) attributes { return attributes{"pk": str(workers), "sk": str(sk)} }

func workerItem(w sandbox.Worker, version int64) (attributes, error) {
	text, err := canon.Encode(w)
	if err != nil {
		return nil, err
	}
	item := workerKey(w.Ref)
	item["worker"], item["version"] = str(string(text)), num(version)
	return item, nil
}

func readWorker(r *row) (sandbox.Worker, error) {
	var w sandbox.Worker
	if err := json.Unmarshal([]byte(r.str("worker")), &w, json.RejectUnknownMembers(true)); err != nil {
		return sandbox.Worker{}, fmt.Errorf("dynamo: worker: stored row: %w", err)
	}
	w.Version = r.num("version")
	return w, r.err
}

// Fleet implements sandbox.Store.
func (s *Store) Fleet(ctx context.Context) (sandbox.Fleet, error) {
	var fleet sandbox.Fleet
	var from attributes
	for {
		var out *dynamodb.QueryOutput
		err := repeat(ctx, s, "query workers", func(ctx context.Context) (err error) {
			out, err = s.client.Query(ctx, &dynamodb.QueryInput{TableName: &s.tables.Runs, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from,
				KeyConditionExpression: aws.String("pk = :workers"), ExpressionAttributeValues: attributes{":workers": str(workers)}}, noRetries)
			return err
		})
		if err != nil {
			return fleet, err
		}
		for _, item := range out.Items {
			r := &row{item: item}
			if r.str("sk") == fleetSort {
				fleet.Version = r.num("version")
				continue
			}
			w, err := readWorker(r)
			if err != nil {
				return fleet, err
			}
			fleet.Workers = append(fleet.Workers, w)
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return fleet, nil
		}
	}
}

// AddWorker implements sandbox.Store.
func (s *Store) AddWorker(ctx context.Context, w sandbox.Worker, fleet int64) error {
	item, err := workerItem(w, 1)
	if err != nil {
		return err
	}
	head := workerKey(fleetSort)
	head["version"] = num(fleet + 1)
	r, err := s.transact(ctx, "add worker", []types.TransactWriteItem{at(fleet).put(s.tables.Runs, head), at(0).put(s.tables.Runs, item)},
		"add worker", fmt.Sprint(fleet), encodedText(w))
	if err != nil || r.failed == nil {
		return err
	}
	if r.doubtful { // a worker's reference is its own: if it is there, this put it there
		if _, err := s.Worker(ctx, w.Ref); !errors.Is(err, history.ErrNotFound) {
			return err
		}
	}
	return sandbox.ErrMoved
}

// Worker implements sandbox.Store.
func (s *Store) Worker(ctx context.Context, ref string) (sandbox.Worker, error) {
	r, err := s.get(ctx, "read worker", s.tables.Runs, workerKey(ref))
	if err != nil {
		return sandbox.Worker{}, err
	}
	if r == nil {
		return sandbox.Worker{}, fmt.Errorf("dynamo: worker: %w", history.ErrNotFound)
	}
	return readWorker(r)
}

// SaveWorker implements sandbox.Store.
func (s *Store) SaveWorker(ctx context.Context, w sandbox.Worker) error {
	item, err := workerItem(w, w.Version+1)
	if err != nil {
		return err
	}
	return s.putAt(ctx, "save worker", item, w.Version)
}

// RemoveWorker implements sandbox.Store. It is a transaction of one for its rules
// about lost replies.
func (s *Store) RemoveWorker(ctx context.Context, w sandbox.Worker) error {
	if w.Version < 1 {
		return nil
	}
	c := at(w.Version)
	_, err := s.transact(ctx, "remove worker", []types.TransactWriteItem{{Delete: &types.Delete{TableName: &s.tables.Runs, Key: workerKey(w.Ref),
		ConditionExpression: &c.text, ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values}}}, "remove worker", w.Ref, fmt.Sprint(w.Version))
	return err
}
