package dynamodb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Options say where a Service keeps its tables and who it is.
type Options struct {
	Path      string           // of the one file; it is made if it is missing
	Clock     func() time.Time // nil for time.Now
	Region    string           // in ARNs; "us-east-1" if empty
	AccountID string           // in ARNs; "000000000000" if empty
}

// Service is a DynamoDB endpoint. Its methods may be called at the same time.
type Service struct {
	options Options
	store   *store

	mu     sync.RWMutex // held for reading during a request, for writing by Close
	closed bool

	stopSweeper context.CancelFunc
	sweeper     sync.WaitGroup
}

// Open opens the file, making it if need be, and starts the service. One process
// at a time can have the file open.
func Open(options Options) (*Service, error) {
	if options.Path == "" {
		return nil, errors.New("dynamodb: no path")
	}
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.Region == "" {
		options.Region = "us-east-1"
	}
	if options.AccountID == "" {
		options.AccountID = "000000000000"
	}
	store, err := openStore(options.Path, options.Clock)
	if err != nil {
		return nil, err
	}
	s := &Service{options: options, store: store}
	ctx, stop := context.WithCancel(context.Background())
	s.stopSweeper = stop
	s.sweeper.Go(func() { s.sweepAlways(ctx) })
	return s, nil
}

// sweepAlways sweeps every minute. A sweep that fails is tried again with the
// next; requests tell what is wrong with the file.
func (s *Service) sweepAlways(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = s.SweepExpired(ctx)
		}
	}
}

// Close waits for the requests under way and closes the file. Later requests
// fail.
func (s *Service) Close() error {
	s.stopSweeper()
	s.sweeper.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.store.close()
}

// update runs a write that is no request of a client.
func (s *Service) update(run func(*writeTx) (any, *apiError)) (any, *apiError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errInternal(errClosed)
	}
	return s.store.update(run)
}

var errClosed = errors.New("the service is closed")

// operation decodes, checks and runs a request.
type operation func(s *Service, name string, body []byte) (any, *apiError)

func op[In any](run func(*Service, *In) (any, *apiError)) operation {
	return opWithBody(func(s *Service, in *In, _ []byte) (any, *apiError) { return run(s, in) })
}

func opWithBody[In any](run func(*Service, *In, []byte) (any, *apiError)) operation {
	return func(s *Service, name string, body []byte) (any, *apiError) {
		in := new(In)
		if err := decodeInput(name, body, in); err != nil {
			return nil, err
		}
		if err := checkConstraints(in); err != nil {
			return nil, err
		}
		return run(s, in, body)
	}
}

// operations are all that the service knows. Every other is refused.
var operations = map[string]operation{
	"BatchGetItem":       op((*Service).batchGetItem),
	"BatchWriteItem":     op((*Service).batchWriteItem),
	"CreateTable":        op((*Service).createTable),
	"DeleteItem":         op((*Service).deleteItem),
	"DeleteTable":        op((*Service).deleteTable),
	"DescribeTable":      op((*Service).describeTable),
	"DescribeTimeToLive": op((*Service).describeTimeToLive),
	"GetItem":            op((*Service).getItem),
	"ListTables":         op((*Service).listTables),
	"PutItem":            op((*Service).putItem),
	"Query":              op((*Service).query),
	"Scan":               op((*Service).scan),
	"TransactGetItems":   op((*Service).transactGetItems),
	"TransactWriteItems": opWithBody((*Service).transactWriteItems),
	"UpdateItem":         op((*Service).updateItem),
	"UpdateTimeToLive":   op((*Service).updateTimeToLive),
}

// Operations lists the names of the supported operations.
func Operations() []string {
	names := make([]string, 0, len(operations))
	for name := range operations {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Do runs an operation, such as "PutItem", with a JSON body, and returns the
// HTTP status and the JSON answer. A write that is answered with 200 is synced
// on disk. Once begun, a request is not given up when ctx ends.
func (s *Service) Do(ctx context.Context, name string, body []byte) (status int, response []byte) {
	result, err := s.do(ctx, name, body)
	if err != nil {
		return err.status, err.body()
	}
	response, fault := json.Marshal(result, json.Deterministic(true))
	if fault != nil {
		err := errInternal(fault)
		return err.status, err.body()
	}
	return http.StatusOK, response
}

func (s *Service) do(ctx context.Context, name string, body []byte) (any, *apiError) {
	run, known := operations[name]
	if !known {
		return nil, badRequest(coralService+"UnknownOperationException", "The local DynamoDB does not support the operation "+name)
	}
	if err := ctx.Err(); err != nil {
		return nil, errInternal(err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errInternal(errClosed)
	}
	return run(s, name, body)
}

const (
	targetPrefix    = "DynamoDB_20120810."
	contentType     = "application/x-amz-json-1.0"
	maxRequestBytes = 16 << 20
)

// ServeHTTP answers a request of the AWS JSON 1.0 protocol, whose caller has
// authenticated it.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Amzn-RequestId", newRequestID())
	if r.Method != http.MethodPost {
		http.Error(w, "the local DynamoDB answers POST only", http.StatusMethodNotAllowed)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return // else: the client has gone
	}
	var status int
	var response []byte
	if name, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix); ok {
		status, response = s.Do(r.Context(), name, body)
	} else {
		unknown := badRequest(coralService+"UnknownOperationException",
			fmt.Sprintf("The header X-Amz-Target must be %s and an operation", targetPrefix))
		status, response = unknown.status, unknown.body()
	}
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(response)))
	header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(response)), 10))
	w.WriteHeader(status)
	_, _ = w.Write(response) // an error means that the client has gone
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= maxRequestBytes {
		body.Grow(int(r.ContentLength))
	}
	_, err := io.Copy(&body, http.MaxBytesReader(w, r.Body, maxRequestBytes))
	return body.Bytes(), err
}

// newRequestID is 52 letters and digits, as DynamoDB's are.
func newRequestID() string {
	return strings.ToUpper(strings.ReplaceAll(newID()+newID(), "-", ""))[:52]
}
