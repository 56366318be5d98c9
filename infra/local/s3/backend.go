package s3

import (
	"bytes"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/johannesboyne/gofakes3"
	bolt "go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/failpoint"
)

// backend keeps objects in a bbolt file: two buckets for each S3 bucket, "m/"
// with what describes an object and "d/" with its bytes, so that a listing
// reads no contents. Both are written in one transaction, and a write is
// answered after it is synced.
type backend struct {
	db  *bolt.DB
	now func() time.Time
}

var _ gofakes3.Backend = (*backend)(nil)

type description struct {
	Metadata map[string]string `json:"metadata"`
	Modified time.Time         `json:"modified"`
	Size     int64             `json:"size"`
	MD5      []byte            `json:"md5"`
}

func metaName(bucket string) []byte { return []byte("m/" + bucket) }
func dataName(bucket string) []byte { return []byte("d/" + bucket) }

// errOperation is never seen: the gate refuses what would lead here.
var errOperation = errors.New("s3: an operation that the gate should have refused")

func (b *backend) ListBuckets() ([]gofakes3.BucketInfo, error) { return nil, errOperation }
func (b *backend) DeleteBucket(string) error                   { return errOperation }
func (b *backend) ForceDeleteBucket(string) error              { return errOperation }
func (b *backend) DeleteMulti(string, ...string) (gofakes3.MultiDeleteResult, error) {
	return gofakes3.MultiDeleteResult{}, errOperation
}
func (b *backend) CopyObject(_, _, _, _ string, _ map[string]string) (gofakes3.CopyObjectResult, error) {
	return gofakes3.CopyObjectResult{}, errOperation
}

func (b *backend) CreateBucket(name string) error {
	return b.db.Update(func(tx *bolt.Tx) error {
		for _, n := range [][]byte{metaName(name), dataName(name)} {
			if _, err := tx.CreateBucketIfNotExists(n); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *backend) BucketExists(name string) (exists bool, err error) {
	err = b.db.View(func(tx *bolt.Tx) error {
		exists = tx.Bucket(metaName(name)) != nil
		return nil
	})
	return exists, err
}

func (b *backend) ListBucket(name string, prefix *gofakes3.Prefix, page gofakes3.ListBucketPage) (*gofakes3.ObjectList, error) {
	list := gofakes3.NewObjectList()
	err := b.db.View(func(tx *bolt.Tx) error {
		m := tx.Bucket(metaName(name))
		if m == nil {
			return gofakes3.BucketNotFound(name)
		}
		start := []byte("")
		if prefix != nil && prefix.HasPrefix {
			start = []byte(prefix.Prefix)
		}
		c := m.Cursor()
		k, v := c.Seek(start)
		if page.HasMarker && bytes.Compare([]byte(page.Marker), start) >= 0 {
			if k, v = c.Seek([]byte(page.Marker)); string(k) == page.Marker {
				k, v = c.Next()
			}
		}
		for ; k != nil && bytes.HasPrefix(k, start); k, v = c.Next() {
			if int64(len(list.Contents)) == page.MaxKeys {
				if page.MaxKeys > 0 {
					list.IsTruncated, list.NextMarker = true, list.Contents[len(list.Contents)-1].Key
				}
				break
			}
			var d description
			if err := json.Unmarshal(v, &d); err != nil {
				return fmt.Errorf("object %q: %w", k, err)
			}
			list.Add(&gofakes3.Content{Key: string(k), LastModified: gofakes3.NewContentTime(d.Modified), ETag: gofakes3.FormatETag(d.MD5), Size: d.Size})
		}
		return nil
	})
	return list, err
}

func (b *backend) HeadObject(bucket, key string) (*gofakes3.Object, error) {
	return b.object(bucket, key, nil, false)
}

func (b *backend) GetObject(bucket, key string, r *gofakes3.ObjectRangeRequest) (*gofakes3.Object, error) {
	return b.object(bucket, key, r, true)
}

func (b *backend) object(bucket, key string, r *gofakes3.ObjectRangeRequest, contents bool) (*gofakes3.Object, error) {
	var o *gofakes3.Object
	err := b.db.View(func(tx *bolt.Tx) error {
		m := tx.Bucket(metaName(bucket))
		if m == nil {
			return gofakes3.BucketNotFound(bucket)
		}
		v := m.Get([]byte(key))
		if v == nil {
			return gofakes3.KeyNotFound(key)
		}
		var d description
		if err := json.Unmarshal(v, &d); err != nil {
			return fmt.Errorf("object %q: %w", key, err)
		}
		rng, err := r.Range(d.Size)
		if err != nil {
			return err
		}
		var data []byte
		if contents {
			data = tx.Bucket(dataName(bucket)).Get([]byte(key))
			if rng != nil {
				data = data[rng.Start : rng.Start+rng.Length]
			}
			data = bytes.Clone(data) // bbolt's memory is ours only within the transaction
		}
		o = &gofakes3.Object{Name: key, Metadata: d.Metadata, Size: d.Size, Hash: d.MD5, Range: rng, Contents: io.NopCloser(bytes.NewReader(data))}
		return nil
	})
	return o, err
}

func (b *backend) PutObject(bucket, key string, meta map[string]string, input io.Reader, size int64, conditions *gofakes3.PutConditions) (gofakes3.PutObjectResult, error) {
	var none gofakes3.PutObjectResult
	data, err := gofakes3.ReadAll(input, size)
	if err != nil {
		return none, err
	}
	sum := md5.Sum(data)
	v, err := json.Marshal(description{Metadata: meta, Modified: b.now().UTC().Truncate(time.Second), Size: int64(len(data)), MD5: sum[:]})
	if err != nil {
		return none, err
	}
	failpoint.Hit(failpoint.S3Storing)
	err = b.db.Update(func(tx *bolt.Tx) error {
		m, d := tx.Bucket(metaName(bucket)), tx.Bucket(dataName(bucket))
		if m == nil {
			return gofakes3.BucketNotFound(bucket)
		}
		if conditions != nil {
			info := gofakes3.ConditionalObjectInfo{}
			if old := m.Get([]byte(key)); old != nil {
				var was description
				if err := json.Unmarshal(old, &was); err != nil {
					return fmt.Errorf("object %q: %w", key, err)
				}
				info.Exists, info.Hash = true, was.MD5
			}
			if err := gofakes3.CheckPutConditions(conditions, &info); err != nil {
				return err
			}
		}
		if err := m.Put([]byte(key), v); err != nil {
			return err
		}
		return d.Put([]byte(key), data)
	})
	if err == nil {
		failpoint.Hit(failpoint.S3Stored)
	}
	return none, err
}

func (b *backend) DeleteObject(bucket, key string) (gofakes3.ObjectDeleteResult, error) {
	var none gofakes3.ObjectDeleteResult
	return none, b.db.Update(func(tx *bolt.Tx) error {
		m, d := tx.Bucket(metaName(bucket)), tx.Bucket(dataName(bucket))
		if m == nil {
			return gofakes3.BucketNotFound(bucket)
		}
		if err := m.Delete([]byte(key)); err != nil {
			return err
		}
		return d.Delete([]byte(key))
	})
}
