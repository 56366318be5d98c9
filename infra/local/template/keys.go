package template

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
)

// keyID is the ID of a key: a UUID as on AWS, and the same at every start.
func keyID(name string) string {
	sum := sha256.Sum256([]byte("key " + name))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8, as RFC 9562 has it for IDs of one's own
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// key reads a symmetric key. It has the default key policy, by which the policies of the
// account decide; another one would have to be evaluated, and is refused.
func (b *builder) key(id string, r *reader) {
	k := Key{LogicalID: id, ID: b.physical(id, r.path)}
	k.ARN = b.arn("AWS::KMS::Key", k.ID)
	// A rotated key reads what it encrypted before: nobody who calls it sees it.
	r.inert("Description", "EnableKeyRotation", "RotationPeriodInDays", "PendingWindowInDays", "Tags")
	r.only("KeySpec", "SYMMETRIC_DEFAULT")
	r.only("KeyUsage", "ENCRYPT_DECRYPT")
	r.only("Enabled", "true")
	r.only("MultiRegion", "false")
	r.only("Origin", "AWS_KMS")
	r.done()
	b.out.Keys = append(b.out.Keys, k)
}

// An alias is another name of a key.
type alias struct{ path, name, key string }

var aliasName = regexp.MustCompile(`^alias/[A-Za-z0-9/_-]{1,250}$`)

func (b *builder) alias(id string, r *reader) {
	a := alias{path: r.path, name: r.text("AliasName", ""), key: r.text("TargetKeyId", "")}
	r.done()
	if !aliasName.MatchString(a.name) {
		b.add(pointer(r.path, "AliasName"), "a name is alias/ and letters, digits, slashes, underscores and hyphens")
	}
	b.aliases = append(b.aliases, a)
}

// nameKeys gives the aliases to their keys, once all are read.
func (b *builder) nameKeys() {
	for _, a := range b.aliases {
		at := slices.IndexFunc(b.out.Keys, func(k Key) bool { return a.key == k.ID || a.key == k.ARN })
		if at < 0 {
			b.add(pointer(a.path, "TargetKeyId"), "it is no key of the template")
			continue
		}
		b.out.Keys[at].Aliases = append(b.out.Keys[at].Aliases, a.name)
	}
}
