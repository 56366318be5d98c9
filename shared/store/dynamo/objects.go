package dynamo

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/pxhost/pxhost/shared/history"
)

var _ history.Objects = (*Store)(nil)

const (
	// inline is the most bytes, after compression, that an item holds; DynamoDB's
	// limit is 400 KB with all names and keys.
	inline = 350 << 10
	// maxObject is the most bytes of one object before compression; what may be
	// larger is not an object.
	maxObject = 256 << 20
	// A request may have 25 writes or 100 reads; batches also run side by side.
	writeBatch, readBatch, sideBySide = 25, 100, 8
)

// The encodings of a stored body. Deflate and not zstd: it adds 0.04 MB to each
// Lambda instead of 0.44 MB, and nodes are decoded once a process.
const (
	encPlain   = "0"
	encDeflate = "1"
)

var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, 4)
	return w
}}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

func compress(body []byte) (enc string, stored []byte) {
	if len(body) < 256 {
		return encPlain, body
	}
	out := bytes.NewBuffer(make([]byte, 0, len(body)/2))
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(out)
	// Writing to memory cannot fail.
	w.Write(body)
	w.Close()
	if out.Len() > len(body)*9/10 {
		return encPlain, body
	}
	return encDeflate, out.Bytes()
}

func decompress(enc string, stored []byte, size int64) ([]byte, error) {
	switch enc {
	case encPlain:
		return stored, nil
	case encDeflate:
		if size < 0 || size > maxObject {
			return nil, errors.New("no size of an object")
		}
		// One byte more than the size would be wrong already. Memory grows with
		// what is there, not with what the size promises.
		out := bytes.NewBuffer(make([]byte, 0, min(size, 16*int64(len(stored)))+bytes.MinRead))
		r := inflaters.Get().(io.Reader)
		defer inflaters.Put(r)
		if err := r.(flate.Resetter).Reset(bytes.NewReader(stored), nil); err != nil {
			return nil, err
		}
		_, err := out.ReadFrom(io.LimitReader(r, size+1))
		if err == nil && int64(out.Len()) != size {
			err = errors.New("another size")
		}
		return out.Bytes(), err
	default:
		return nil, errors.New("unknown encoding")
	}
}

func objectKey(space history.Space, ref history.Ref) string { return string(space) + "#" + string(ref) }

// blobName has no part of a Space in the clear: a principal's may hold any
// character, and names of blobs end up in logs.
func blobName(space history.Space, ref history.Ref) string {
	sum := sha256.Sum256([]byte(space))
	return "objects/" + hex.EncodeToString(sum[:]) + "/" + strings.TrimPrefix(string(ref), "sha256:")
}

// Put implements history.Objects. A large body is in the blob store before its
// row says so. Storing what exists writes the row again, with a new stagedAt.
func (s *Store) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	staged := s.now().Unix()
	requests := make([]types.WriteRequest, 0, len(bodies))
	seen := make(map[history.Ref]bool, len(bodies))
	var large []func() error
	for _, body := range bodies {
		ref := history.RefOf(body)
		if seen[ref] { // DynamoDB refuses a batch that writes one item twice
			continue
		}
		seen[ref] = true
		if len(body) > maxObject {
			return fmt.Errorf("dynamo: put: an object of %d bytes is more than %d", len(body), maxObject)
		}
		enc, stored := compress(body)
		item := attributes{
			"pk": str(objectKey(space, ref)), "enc": str(enc),
			"size": num(int64(len(body))), "stagedAt": num(staged),
		}
		if len(stored) <= inline {
			item["body"] = bin(stored)
		} else {
			name := blobName(space, ref)
			item["blob"] = str(name)
			large = append(large, func() error {
				if s.blobs == nil {
					return errors.New("dynamo: put: no store for large objects here")
				}
				if err := s.blobs.Put(ctx, name, stored); err != nil {
					return fmt.Errorf("dynamo: put a large object: %w", err)
				}
				return nil
			})
		}
		requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: item}})
	}
	if err := together(large); err != nil {
		return err
	}
	var batches []func() error
	for len(requests) > 0 {
		batch := requests[:min(writeBatch, len(requests))]
		requests = requests[len(batch):]
		batches = append(batches, func() error { return s.writeBatch(ctx, batch) })
	}
	return together(batches)
}

// writeBatch writes until nothing is left unprocessed.
func (s *Store) writeBatch(ctx context.Context, batch []types.WriteRequest) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		var out *dynamodb.BatchWriteItemOutput
		err := repeat(ctx, s, "put", func(ctx context.Context) (err error) {
			out, err = s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.tables.Objects: batch}}, noRetries)
			return err
		})
		if err != nil {
			return err
		}
		rest := out.UnprocessedItems[s.tables.Objects]
		if len(rest) == 0 {
			return nil
		}
		if len(rest) < len(batch) {
			attempt = 0
		}
		batch = rest
		if !pause(ctx, attempt) {
			return fmt.Errorf("dynamo: put: items stay unprocessed: %w", ctx.Err())
		}
	}
}

// together runs up to sideBySide functions at once and returns the first error.
func together(run []func() error) error {
	if len(run) == 1 {
		return run[0]()
	}
	errs := make([]error, len(run))
	var wait sync.WaitGroup
	slots := make(chan struct{}, sideBySide)
	for i, f := range run {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = f()
			<-slots
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Get implements history.Objects.
func (s *Store) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	found := make(map[history.Ref][]byte, len(refs))
	for _, consistent := range []bool{false, true} {
		var missing []history.Ref
		asked := make(map[history.Ref]bool, len(refs))
		for _, ref := range refs {
			if !ref.Valid() {
				return nil, fmt.Errorf("dynamo: get: malformed ref: %w", history.ErrNotFound)
			}
			if found[ref] == nil && !asked[ref] {
				missing, asked[ref] = append(missing, ref), true
			}
		}
		if len(missing) == 0 {
			break
		}
		if err := s.read(ctx, space, missing, consistent, found); err != nil {
			return nil, err
		}
	}
	bodies := make([][]byte, len(refs))
	for i, ref := range refs {
		if bodies[i] = found[ref]; bodies[i] == nil {
			return nil, fmt.Errorf("dynamo: object %s: %w", ref, history.ErrNotFound)
		}
	}
	return bodies, nil
}

// read adds to found what is there of refs.
func (s *Store) read(ctx context.Context, space history.Space, refs []history.Ref, consistent bool, found map[history.Ref][]byte) error {
	var mu sync.Mutex
	var batches []func() error
	for len(refs) > 0 {
		batch := refs[:min(readBatch, len(refs))]
		refs = refs[len(batch):]
		batches = append(batches, func() error {
			items, err := s.readBatch(ctx, space, batch, consistent)
			if err != nil {
				return err
			}
			for _, item := range items {
				ref, body, err := s.body(ctx, space, item)
				if err != nil {
					return err
				}
				mu.Lock()
				found[ref] = body
				mu.Unlock()
			}
			return nil
		})
	}
	return together(batches)
}

func (s *Store) readBatch(ctx context.Context, space history.Space, refs []history.Ref, consistent bool) ([]attributes, error) {
	if len(refs) == 1 { // most reads are of one, and GetItem is the cheaper call
		var out *dynamodb.GetItemOutput
		err := repeat(ctx, s, "get", func(ctx context.Context) (err error) {
			out, err = s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.tables.Objects,
				Key: attributes{"pk": str(objectKey(space, refs[0]))}, ConsistentRead: aws.Bool(consistent)}, noRetries)
			return err
		})
		if err != nil || len(out.Item) == 0 {
			return nil, err
		}
		return []attributes{out.Item}, nil
	}
	want := types.KeysAndAttributes{ConsistentRead: aws.Bool(consistent)}
	for _, ref := range refs {
		want.Keys = append(want.Keys, attributes{"pk": str(objectKey(space, ref))})
	}
	found, err := s.batchGet(ctx, "get", map[string]types.KeysAndAttributes{s.tables.Objects: want})
	return found[s.tables.Objects], err
}

// body returns the object of an item. What does not have the digest that it is
// stored under is an error and never returned.
func (s *Store) body(ctx context.Context, space history.Space, item attributes) (history.Ref, []byte, error) {
	r := row{item: item}
	pk, enc, size, blob := r.str("pk"), r.str("enc"), r.num("size"), r.optional("blob")
	ref := history.Ref(strings.TrimPrefix(pk, string(space)+"#"))
	var stored []byte
	if blob == "" {
		stored = r.bin("body")
	}
	if r.err != nil {
		return "", nil, r.err
	}
	if blob != "" {
		if s.blobs == nil {
			return "", nil, errors.New("dynamo: get: no store for large objects here")
		}
		var err error
		if stored, err = s.blobs.Get(ctx, blob); err != nil {
			return "", nil, fmt.Errorf("dynamo: get a large object: %w", err)
		}
	}
	body, err := decompress(enc, stored, size)
	if err != nil || history.RefOf(body) != ref {
		return "", nil, fmt.Errorf("dynamo: object %s: %w", ref, history.ErrCorrupt)
	}
	if body == nil {
		body = []byte{}
	}
	return ref, body, nil
}
