package kms

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// A Key is a symmetric key for encryption that the template declares.
type Key struct {
	ID, ARN string   // the ID is a UUID
	Aliases []string // each alias/…
}

// Options configure a [Service].
type Options struct {
	File              string // holds the key material
	Region, AccountID string
	Keys              []Key
}

// A Service answers the requests of one region. It is safe for use by many goroutines:
// nothing changes it once it is open.
type Service struct {
	opt      Options
	material map[string][]byte // by key ID, of keys that are no longer declared too
}

// stored is the file.
type stored struct {
	Material map[string][]byte `json:"material"`
}

const keySize = 32 // bytes of a key's material

// Open reads the key material, and makes that of new keys. A file that cannot be read is
// an error and stays as it is: all that was ever encrypted hangs on it.
func Open(opt Options) (*Service, error) {
	s := &Service{opt: opt, material: map[string][]byte{}}
	text, err := os.ReadFile(opt.File)
	if err == nil {
		var file stored
		if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("keys in %s: it is damaged", opt.File) // the cause may quote it
		}
		s.material = file.Material
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keys: %w", err)
	}
	for id, m := range s.material {
		if len(m) != keySize || !uuid.MatchString(id) {
			return nil, fmt.Errorf("keys in %s: it is damaged", opt.File)
		}
	}
	grown := false
	for _, k := range opt.Keys {
		if !uuid.MatchString(k.ID) {
			return nil, fmt.Errorf("keys: the ID of %s is no UUID", k.ARN)
		}
		if s.material[k.ID] != nil {
			continue
		}
		grown = true
		if s.material == nil {
			s.material = map[string][]byte{}
		}
		s.material[k.ID] = make([]byte, keySize)
		rand.Read(s.material[k.ID])
	}
	if grown {
		text, err := json.Marshal(stored{s.material}, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		if err := statedir.WriteFile(opt.File, text); err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
	return s, nil
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Fields lists every member of the inputs of the supported operations: true is
// supported, false is refused by name where it is set. A test compares it with the SDK.
var Fields = map[string]map[string]bool{
	"GenerateDataKey": {"KeyId": true, "EncryptionContext": true, "KeySpec": true, "NumberOfBytes": true, "DryRun": false, "GrantTokens": false, "Recipient": false},
	"Decrypt": {"CiphertextBlob": true, "EncryptionContext": true, "EncryptionAlgorithm": true, "KeyId": true,
		"DryRun": false, "DryRunModifiers": false, "GrantTokens": false, "Recipient": false},
}

// An apiError is an error of KMS's own.
type apiError struct{ code, message string }

func (e *apiError) Error() string { return e.code + ": " + e.message }

func refuse(code, format string, args ...any) error {
	return &apiError{code, fmt.Sprintf(format, args...)}
}

const targetPrefix = "TrentService."

// ServeHTTP answers one request of the JSON 1.1 protocol whose signature was checked.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := s.serve(r)
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadRequest
		known := (*apiError)(nil)
		if !errors.As(err, &known) {
			status, known = http.StatusInternalServerError, &apiError{"KMSInternalException", "px local failed"}
		}
		said := map[string]string{"__type": known.code}
		if known.message != "" { // KMS says nothing of a ciphertext but that it is invalid
			said["message"] = known.message
		}
		out = said
	}
	body, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		panic(err) // only plain values come here
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", rand.Text())
	w.WriteHeader(status)
	w.Write(body)
}

type (
	generateInput struct {
		KeyID             string            `json:"KeyId"`
		EncryptionContext map[string]string `json:"EncryptionContext"`
		KeySpec           *string           `json:"KeySpec"`
		NumberOfBytes     *int64            `json:"NumberOfBytes"`
	}
	generateOutput struct {
		CiphertextBlob []byte `json:"CiphertextBlob"`
		KeyID          string `json:"KeyId"`
		KeyMaterialID  string `json:"KeyMaterialId"`
		Plaintext      []byte `json:"Plaintext"`
	}
	decryptInput struct {
		CiphertextBlob      []byte            `json:"CiphertextBlob"`
		EncryptionContext   map[string]string `json:"EncryptionContext"`
		EncryptionAlgorithm *string           `json:"EncryptionAlgorithm"`
		KeyID               string            `json:"KeyId"`
	}
	decryptOutput struct {
		EncryptionAlgorithm string `json:"EncryptionAlgorithm"`
		KeyID               string `json:"KeyId"`
		KeyMaterialID       string `json:"KeyMaterialId"`
		Plaintext           []byte `json:"Plaintext"`
	}
)

func (s *Service) serve(r *http.Request) (any, error) {
	op, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if r.Method != http.MethodPost || r.URL.Path != "/" || !ok || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		return nil, refuse("UnsupportedOperationException", "px local serves KMS as POST / of the JSON 1.1 protocol")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	switch op {
	case "GenerateDataKey":
		var in generateInput
		if err := decode(op, body, &in); err != nil {
			return nil, err
		}
		return s.generateDataKey(in)
	case "Decrypt":
		var in decryptInput
		if err := decode(op, body, &in); err != nil {
			return nil, err
		}
		return s.decrypt(in)
	}
	return nil, refuse("UnsupportedOperationException", "px local does not support %s of KMS; it has GenerateDataKey and Decrypt", printable(op))
}

// printable keeps a caller's text out of our messages unless it is a name.
func printable(s string) string {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "?"
		}
	}
	return s[:min(len(s), 60)]
}

// decode reads a request, and refuses by its name a member that is not supported. null
// is as if the member were not there.
func decode(op string, body []byte, into any) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return refuse("SerializationException", "the request is no JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch supported, known := Fields[op][name]; {
		case members[name].Kind() == 'n':
			delete(members, name)
		case !known:
			return refuse("UnsupportedOperationException", "px local does not know the member %s of %s", printable(name), op)
		case !supported:
			return refuse("UnsupportedOperationException", "px local does not support %s of %s", name, op)
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return refuse("SerializationException", "a member of the request is of another type")
	}
	return nil
}

// invalid is the refusal of a member whose value breaks a constraint of the model.
func invalid(member, constraint string) error {
	return refuse("ValidationException", "1 validation error detected: Value at '%s' failed to satisfy constraint: %s", member, constraint)
}

// The limits of the model.
const (
	maxKeyID      = 2048
	maxDataKey    = 1024 // bytes
	maxCiphertext = 6144 // bytes
)

func (s *Service) generateDataKey(in generateInput) (any, error) {
	size := 0
	switch {
	case in.KeyID == "":
		return nil, invalid("keyId", "Member must not be null")
	case in.KeySpec != nil && *in.KeySpec != "AES_256" && *in.KeySpec != "AES_128":
		return nil, invalid("keySpec", "Member must satisfy enum value set: [AES_256, AES_128]")
	case in.NumberOfBytes != nil && (*in.NumberOfBytes < 1 || *in.NumberOfBytes > maxDataKey):
		return nil, invalid("numberOfBytes", "Member must have value between 1 and 1024")
	case (in.KeySpec == nil) == (in.NumberOfBytes == nil):
		return nil, refuse("ValidationException", "Please specify either number of bytes or key spec.")
	case in.NumberOfBytes != nil:
		size = int(*in.NumberOfBytes)
	case *in.KeySpec == "AES_128":
		size = 16
	default:
		size = 32
	}
	if err := checkContext(in.EncryptionContext); err != nil {
		return nil, err
	}
	k, err := s.find(in.KeyID)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, size)
	rand.Read(plain)
	blob, err := s.wrap(k.ID, plain, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	return generateOutput{blob, k.ARN, s.materialID(k.ID), plain}, nil
}

func (s *Service) decrypt(in decryptInput) (any, error) {
	switch {
	case len(in.CiphertextBlob) == 0:
		return nil, invalid("ciphertextBlob", "Member must have length greater than or equal to 1")
	case len(in.CiphertextBlob) > maxCiphertext:
		return nil, invalid("ciphertextBlob", "Member must have length less than or equal to 6144")
	case in.EncryptionAlgorithm != nil && *in.EncryptionAlgorithm != "SYMMETRIC_DEFAULT":
		return nil, refuse("UnsupportedOperationException", "px local has symmetric keys only: EncryptionAlgorithm is SYMMETRIC_DEFAULT")
	}
	if err := checkContext(in.EncryptionContext); err != nil {
		return nil, err
	}
	asked := Key{}
	if in.KeyID != "" {
		var err error
		if asked, err = s.find(in.KeyID); err != nil {
			return nil, err
		}
	}
	id, ok := keyOf(in.CiphertextBlob)
	switch {
	case !ok:
		return nil, refuse("InvalidCiphertextException", "")
	case asked.ID != "" && asked.ID != id:
		return nil, refuse("IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation.")
	case s.material[id] == nil:
		return nil, refuse("AccessDeniedException", "The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to access.")
	}
	plain, ok := s.unwrap(id, in.CiphertextBlob, in.EncryptionContext)
	if !ok {
		return nil, refuse("InvalidCiphertextException", "")
	}
	return decryptOutput{"SYMMETRIC_DEFAULT", s.arn("key/" + id), s.materialID(id), plain}, nil
}

// maxContext is how many bytes an encryption context may have, names and values
// together.
const maxContext = 8192

func checkContext(of map[string]string) error {
	size := 0
	for name, value := range of {
		size += len(name) + len(value)
	}
	if size > maxContext {
		return refuse("ValidationException", "px local takes encryption contexts of at most %d bytes", maxContext)
	}
	return nil
}

func (s *Service) arn(rest string) string {
	return "arn:aws:kms:" + s.opt.Region + ":" + s.opt.AccountID + ":" + rest
}

// find returns a declared key by its ID, its ARN, an alias or an alias's ARN.
func (s *Service) find(name string) (Key, error) {
	rest, isARN := strings.CutPrefix(name, s.arn(""))
	alias := strings.HasPrefix(rest, "alias/")
	for _, k := range s.opt.Keys {
		if isARN && name == k.ARN || !isARN && name == k.ID || alias && slices.Contains(k.Aliases, rest) {
			return k, nil
		}
	}
	switch {
	case len(name) > maxKeyID:
		return Key{}, invalid("keyId", "Member must have length less than or equal to 2048")
	case alias:
		return Key{}, refuse("NotFoundException", "Alias %s is not found.", s.arn("alias/"+named(strings.TrimPrefix(rest, "alias/"))))
	case strings.HasPrefix(name, "arn:") && !isARN:
		return Key{}, refuse("NotFoundException", "Invalid arn %s", named(name))
	case isARN || uuid.MatchString(name):
		return Key{}, refuse("NotFoundException", "Key '%s' does not exist", s.arn("key/"+named(strings.TrimPrefix(rest, "key/"))))
	}
	return Key{}, refuse("NotFoundException", "Invalid keyId '%s'", named(name))
}

// named keeps a caller's text out of our messages unless it looks like a key's name.
func named(text string) string {
	if !keyName.MatchString(text) {
		return "?"
	}
	return text
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9:/_-]{1,256}$`)

// KeyARN is the ARN of the key that a request is about, for who decides whether it is
// permitted: by its name, else by the ciphertext. "" is that nobody can tell.
func (s *Service) KeyARN(name string, ciphertext []byte) string {
	if name != "" {
		k, _ := s.find(name)
		return k.ARN
	}
	if id, ok := keyOf(ciphertext); ok {
		return s.arn("key/" + id)
	}
	return ""
}

// A ciphertext is the mark, the key's ID, a nonce, and the sealed rest.
const (
	mark      = "\x01pxkms\x00"
	nonceSize = 12
	idSize    = 36
	headSize  = len(mark) + idSize + nonceSize
)

// keyOf reads by which key a ciphertext says that it was made.
func keyOf(blob []byte) (id string, ok bool) {
	if len(blob) <= headSize || string(blob[:len(mark)]) != mark {
		return "", false
	}
	id = string(blob[len(mark) : len(mark)+idSize])
	return id, uuid.MatchString(id)
}

func (s *Service) aead(id string) (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.derive(id, "encrypt"))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// derive gives a key of its own to each purpose.
func (s *Service) derive(id, purpose string) []byte {
	h := hmac.New(sha256.New, s.material[id])
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

func (s *Service) materialID(id string) string { return hex.EncodeToString(s.derive(id, "id")) }

func (s *Service) wrap(id string, plain []byte, bound map[string]string) ([]byte, error) {
	aead, err := s.aead(id)
	if err != nil {
		return nil, err
	}
	head := []byte(mark + id)
	nonce := make([]byte, nonceSize)
	rand.Read(nonce)
	head = append(head, nonce...)
	return aead.Seal(head, nonce, plain, additional(head, bound)), nil
}

func (s *Service) unwrap(id string, blob []byte, bound map[string]string) ([]byte, bool) {
	aead, err := s.aead(id)
	if err != nil {
		return nil, false
	}
	head := blob[:headSize]
	plain, err := aead.Open(nil, head[headSize-nonceSize:], blob[headSize:], additional(head, bound))
	return plain, err == nil
}

// additional is what a ciphertext is bound to beside its key: its head, and the context,
// each name and value behind its length. A context is a set: it has no order.
func additional(head []byte, bound map[string]string) []byte {
	out := slices.Clone(head)
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		out = fmt.Appendf(out, "%d:%s%d:%s", len(name), name, len(bound[name]), bound[name])
	}
	return out
}
